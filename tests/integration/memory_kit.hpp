/// Memory between sessions of the test's own process, through real daemons.
#pragma once

#include <poll.h>

#include <cstring>
#include <optional>

#include <gtest/gtest.h>
#include <imex/allocation.hpp>
#include <imex/session.hpp>

#include "cluster.hpp"

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
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    while (const auto event = session.next_event()) {
      if (event->kind == kind) return event;
    }
    pollfd ready{session.event_fd(), POLLIN, 0};
    ::poll(&ready, 1, 1000);
  }
  return std::nullopt;
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
inline void expect_shared(Shared& shared, unsigned char mark) {
  std::memset(shared.memory.data(), mark, kBytes);
  EXPECT_EQ(shared.imported.data()[kBytes - 1], std::byte{mark});
  shared.imported.data()[7] = std::byte{0xee};
  EXPECT_EQ(shared.memory.data()[7], std::byte{0xee});
}

}  // namespace imex::test
