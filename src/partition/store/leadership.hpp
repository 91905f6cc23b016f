/// Which replica leads.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/mutex.hpp"
#include "partition/store/reconciler_store.hpp"
#include "sql.hpp"

namespace imex::partition {

/// Thread-safe.
class Leadership {
 public:
  virtual ~Leadership() = default;
  [[nodiscard]] virtual Result<std::optional<Term>> lead() = 0;
  virtual void resign() = 0;
};

/// For a database that only this process has: it leads, with a new term for each life.
[[nodiscard]] Result<std::unique_ptr<Leadership>> sole_leadership(sql::Connection& connection,
                                                                  const std::string& replica);

/// An advisory lock of the server, held by a connection of its own. The server drops it when the
/// process dies; a leader that is alive but stopped is noticed by its heartbeat in table `leader`,
/// and its connection is ended by who wants to lead. Either way its term is over before the next
/// one begins, and what it still tries to write is refused.
[[nodiscard]] std::unique_ptr<Leadership> shared_leadership(sql::Database& database,
                                                            std::string replica);

}  // namespace imex::partition
