/// Memory between sessions of the test's own process, through real daemons.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <imex/allocation.hpp>
#include <imex/session.hpp>

#include "cluster.hpp"
#include "testing/await_event.hpp"

namespace imex::test {

inline constexpr std::size_t kBytes = 2U << 20U;

inline Session open_session(const TestDaemon& daemon, unsigned channel = 0) {
  SessionOptions options;
  options.channel = daemon.channel_path(channel);
  options.timeout =
      std::chrono::seconds(2);  // what a session that lost its channel waits for it to come back
  auto session = Session::open(options);
  if (!session) throw std::runtime_error(session.error().to_string());
  return std::move(*session);
}

/// Takes events until one of `kind`; nothing at the deadline.
inline std::optional<SessionEvent> wait_event(Session& session, SessionEvent::Kind kind) {
  return domain::client::await_event(session, kind, kPatience);
}

/// An allocation of `exporter` that `importer` maps, checked in both directions.
struct Shared {
  Allocation memory;
  Export exported;
  Import imported;
};
inline Result<Shared> share(Session& exporter, Session& importer) {
  IMEX_TRY(Allocation memory, Allocation::create(kBytes));
  IMEX_TRY(Export exported, exporter.export_memory(memory, {.rank = 1}));
  IMEX_TRY(Import imported, importer.import_memory(exported.handle(), {.rank = 0}));
  return Shared{std::move(memory), std::move(exported), std::move(imported)};
}

/// Two nodes of one machine, and memory of a session on the first that one on the second maps.
struct TwoNodes {
  using Keys = std::map<std::string, std::string>;

  /// `keys`: of both configurations. Throws if this does not come to be: there is nothing to test.
  explicit TwoNodes(const Keys& keys = {})
      : a(open_session(up(cluster, keys)[0])), b(open_session(cluster[1])), shared(made(a, b)) {}

  Cluster cluster{2};
  Session a, b;
  Shared shared;

 private:
  static Cluster& up(Cluster& cluster, const Keys& keys) {
    for (const auto& [key, value] : keys) cluster.set(key, value);
    cluster.start();
    if (!cluster.wait_up()) throw std::runtime_error("two nodes do not find each other");
    return cluster;
  }
  static Shared made(Session& a, Session& b) {
    auto shared = share(a, b);
    if (!shared) throw std::runtime_error(shared.error().to_string());
    return std::move(*shared);
  }
};

inline void expect_shared(Shared& shared, unsigned char mark) {
  std::memset(shared.memory.data(), mark, kBytes);
  EXPECT_EQ(shared.imported.data()[kBytes - 1], std::byte{mark});
  shared.imported.data()[7] = std::byte{0xee};
  EXPECT_EQ(shared.memory.data()[7], std::byte{0xee});
}

}  // namespace imex::test
