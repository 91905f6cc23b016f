/// The controller's state: SQLite in one file, or PostgreSQL shared by replicas.
///
///     auto store = Store::open({.url = "/var/lib/imex/controller.db"});
///     store->read([&](ReadTransaction& t) -> Result<void> { ... });
///     store->write({"alice", "acme"}, [&](WriteTransaction& t) -> Result<void> { ... });
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "partition/store/reconciler_store.hpp"
#include "partition/store/transaction.hpp"

namespace imex::partition {

struct StoreOptions {
  /// A path (SQLite), or postgresql://… (or "host=… dbname=…", libpq's own form).
  std::string url{};
  /// Key that seals credentials; made with mode 0600 on first use. Empty: beside the SQLite file;
  /// needed with PostgreSQL, the same for all replicas.
  std::string key_file{};
  /// Connections for reading.
  std::uint32_t readers = 4;
  /// Name of this replica, for people who ask who leads.
  std::string replica = "controller";
  /// How long a call waits for a connection or its turn to write.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  /// For tests.
  std::function<WallTime()> clock{};
};

/// Thread-safe. Writers take turns and are committed in groups; readers see the last commit.
class Store : public ReconcilerStore {
 public:
  /// Makes or migrates the schema. Errors: kAlreadyExists (another process has the SQLite file),
  /// kUnavailable, kVersionMismatch, kDataLoss.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const StoreOptions& options);

  /// Runs `work` on one snapshot. Its error is returned.
  [[nodiscard]] virtual Result<void> read(
      const std::function<Result<void>(ReadTransaction&)>& work) = 0;
  /// Runs `work` on the writer's thread and returns once it is on the disk; an error of `work`
  /// undoes all of it. `work` runs again if the database was lost before its commit. Errors of its
  /// own: kResourceExhausted (too many are waiting), kDeadlineExceeded (no turn in time; nothing
  /// was done), kUnavailable (may have been committed: the connection was lost in the commit).
  [[nodiscard]] virtual Result<void> write(
      const Actor& actor, const std::function<Result<void>(WriteTransaction&)>& work) = 0;
  /// As write(), but nothing stays: what a write would do (dryRun).
  [[nodiscard]] virtual Result<void> rehearse(
      const Actor& actor, const std::function<Result<void>(WriteTransaction&)>& work) = 0;
  /// Seals and stores; empty credentials remove them.
  [[nodiscard]] virtual Result<void> put_credentials(const Actor& actor, const EndpointId& endpoint,
                                                     const EndpointCredentials& credentials) = 0;
};

}  // namespace imex::partition
