/// Test help: short words for what sessions do, and waiting for what they are told.
#pragma once

#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <imex/session.hpp>
#include <imex/signal.hpp>

#include "testing/await_event.hpp"
#include "testing/test_daemon.hpp"

namespace imex::domain::client::session_kit {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Kind = SessionEvent::Kind;

inline constexpr std::size_t kBytes = 64 * 1024;
inline const std::string kPeer = IMEX_TEST_PEER;
inline const std::string kHostile = IMEX_TEST_HOSTILE;

inline Session open_session(TestDaemon& daemon, std::uint32_t gpu = 0, std::uint32_t channel = 0,
                            std::chrono::milliseconds timeout = 5s) {
  auto session =
      Session::open({.channel = daemon.channel(channel), .gpu_index = gpu, .timeout = timeout});
  EXPECT_TRUE(session) << session.error().to_string();
  return std::move(session).value();
}

inline Allocation allocate(std::size_t bytes = kBytes) {
  auto memory = Allocation::create(bytes, {.pages = Pages::kSmall});
  EXPECT_TRUE(memory) << memory.error().to_string();
  return std::move(memory).value();
}

inline Export export_from(Session& session, Allocation& memory, const ExportOptions& options = {}) {
  auto exported = session.export_memory(memory, options);
  EXPECT_TRUE(exported) << exported.error().to_string();
  return std::move(exported).value();
}

inline Import import_to(Session& session, const Handle& handle, const ImportOptions& options = {}) {
  auto imported = session.import_memory(handle, options);
  EXPECT_TRUE(imported) << imported.error().to_string();
  return std::move(imported).value();
}

/// A session on GPU 0, and one on GPU 1 that has mapped its memory. Members end in reverse order.
struct SharedMemory {
  Session exporter, importer;
  Allocation memory;
  Export exported;
  Import imported;
};
inline SharedMemory share_memory(TestDaemon& daemon, const ExportOptions& options = {}) {
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory, options);
  Import imported = import_to(importer, exported.handle());
  return {std::move(exporter), std::move(importer), std::move(memory), std::move(exported),
          std::move(imported)};
}

inline Errc code_of(const Result<Import>& result) {
  return result ? Errc::kOk : result.error().code;
}
inline Errc code_of(const Result<Export>& result) {
  return result ? Errc::kOk : result.error().code;
}
inline Errc code_of(const Result<Session>& result) {
  return result ? Errc::kOk : result.error().code;
}

/// The next event of that kind among those that are there.
inline std::optional<SessionEvent> taken_event(Session& session, Kind kind) {
  while (auto event = session.next_event()) {
    if (event->kind == kind) return event;
  }
  return std::nullopt;
}

inline SignalCell& cell_of(std::byte* data) { return *reinterpret_cast<SignalCell*>(data); }

}  // namespace imex::domain::client::session_kit
