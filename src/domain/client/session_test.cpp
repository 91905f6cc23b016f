// Sessions against the shipped rules over real sockets: opening, sharing and scopes. The broker
// runs in a thread of the test. Losses: session_loss_test.cpp; revocation:
// session_revocation_test.cpp; a daemon that goes away: session_daemon_test.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include "session_test_kit.hpp"

namespace imex::domain::client {
namespace {

using namespace session_kit;  // NOLINT: the words of these tests

// ---- opening ----

TEST(SessionTest, OpenTellsWhereTheSessionIs) {
  TestDaemon daemon;
  Session session = open_session(daemon, 2, 1);
  EXPECT_EQ(session.channel(), 1U);
  EXPECT_EQ(session.node_id(), 3);
  EXPECT_EQ(session.gpu_index(), 2U);
  EXPECT_EQ(session.gpu_uid(), 102U);
}

TEST(SessionTest, OpenRefusesWithTheTrueCause) {
  TestDaemon daemon;
  EXPECT_EQ(code_of(Session::open({})), Errc::kInvalidArgument);
  EXPECT_EQ(code_of(Session::open({.channel = daemon.channel(0), .timeout = 0ms})),
            Errc::kInvalidArgument);
  EXPECT_EQ(code_of(Session::open({.channel = daemon.channel(77)})), Errc::kNotFound);
  EXPECT_EQ(code_of(Session::open({.channel = daemon.channel(0), .gpu_index = 9})),
            Errc::kNotFound);
  const auto wrong = Session::open({.channel = daemon.channel(0), .gpu_uid = 9});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("uid 0x9"));
  daemon.kill();
  EXPECT_EQ(code_of(Session::open({.channel = daemon.channel(0)})), Errc::kUnavailable);
}

TEST(SessionTest, FailedOpenLeavesNoDescriptor) {
  TestDaemon daemon;
  static_cast<void>(Session::open({.channel = daemon.channel(0), .gpu_index = 9}));
  ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.connections == 0; }));
  const std::size_t before = open_descriptors();
  for (int i = 0; i != 10; ++i) {
    EXPECT_FALSE(Session::open({.channel = daemon.channel(0), .gpu_index = 9}));
  }
  ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.connections == 0; }));
  EXPECT_EQ(open_descriptors(), before);
}

// ---- sharing ----

TEST(SessionTest, WhatTheExporterWritesTheImporterReads) {
  TestDaemon daemon;
  Session exporter = open_session(daemon), importer = open_session(daemon, 1);
  Allocation memory = allocate(kBytes - 3);
  Export exported = export_from(exporter, memory, {.rank = 5});
  Import imported = import_to(importer, exported.handle());
  EXPECT_EQ(imported.size(), kBytes - 3);
  EXPECT_EQ(imported.exporter_rank(), 5U);
  EXPECT_EQ(imported.generation(), 1U);
  std::memset(memory.data(), 0x42, memory.size());
  EXPECT_EQ(imported.data()[kBytes - 4], std::byte{0x42});
  imported.data()[7] = std::byte{0x43};
  EXPECT_EQ(memory.data()[7], std::byte{0x43});
}

TEST(SessionTest, SignalsPassThroughImportedMemory) {
  TestDaemon daemon;
  Session exporter = open_session(daemon), importer = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory);
  Import imported = import_to(importer, exported.handle());
  std::jthread producer([&] { Signal(cell_of(imported.data())).notify(3); });
  const WaitResult result =
      Signal(cell_of(memory.data())).wait_until(3, {.deadline = Clock::now() + 10s});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.seen, 3U);
}

TEST(SessionTest, HandlesAreRefusedWithTheTrueCause) {
  TestDaemon daemon;
  Session exporter = open_session(daemon), neighbour = open_session(daemon, 0, 1);
  Allocation memory = allocate();
  std::optional<Export> exported = export_from(exporter, memory);
  const Handle handle = exported->handle();
  EXPECT_EQ(code_of(neighbour.import_memory(handle)), Errc::kPermissionDenied);
  Handle forged = handle;
  forged.bytes[63] ^= std::byte{1};
  EXPECT_EQ(code_of(exporter.import_memory(forged)), Errc::kPermissionDenied);
  daemon.move_gpu(1, 2);
  Session apart = open_session(daemon, 1);
  EXPECT_EQ(code_of(apart.import_memory(handle)), Errc::kPermissionDenied);
  exported.reset();
  EXPECT_EQ(code_of(exporter.import_memory(handle)), Errc::kNotFound);
}

TEST(SessionTest, EverythingEndsWithItsObjectInWhateverOrder) {
  TestDaemon daemon;
  const std::size_t descriptors = open_descriptors();
  for (int order = 0; order != 3; ++order) {
    std::optional<Session> session = open_session(daemon);
    std::optional<Allocation> memory = allocate();
    std::optional<Export> exported = export_from(*session, *memory);
    std::optional<Import> imported = import_to(*session, exported->handle());
    memory.reset();
    if (order == 0) session.reset();
    if (order == 1) exported.reset();
    imported->data()[0] = std::byte{1};
    imported.reset();
    exported.reset();
    session.reset();
    EXPECT_TRUE(daemon.reaches([](const BrokerSize& size) {
      return size.sessions == 0 && size.exports == 0 && size.imports == 0 && size.fds == 0;
    }));
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(SessionTest, MovedObjectsKeepWorkingAndReplacedOnesEnd) {
  TestDaemon daemon;
  Session session = open_session(daemon), other = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(session, memory), second = export_from(session, memory);
  EXPECT_EQ(daemon.size().exports, 2U);
  second = std::move(exported);
  EXPECT_EQ(daemon.size().exports, 1U);
  session = std::move(other);
  EXPECT_EQ(session.gpu_index(), 1U);
  Import imported = import_to(session, second.handle());
  EXPECT_EQ(imported.size(), kBytes);
}

TEST(SessionTest, ThreadsShareOneSession) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  constexpr int kThreads = 4, kRounds = 50;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t != kThreads; ++t) {
      threads.emplace_back([&session, t] {
        Allocation memory = allocate(4096);
        for (int i = 0; i != kRounds; ++i) {
          Export exported = export_from(session, memory);
          Import imported = import_to(session, exported.handle());
          imported.data()[0] = static_cast<std::byte>(t);
          EXPECT_EQ(memory.data()[0], static_cast<std::byte>(t));
        }
      });
    }
  }
  EXPECT_EQ(daemon.stats().imports_done, std::uint64_t{kThreads} * kRounds);
  EXPECT_EQ(daemon.size().imports, 0U);
}

TEST(SessionTest, AnImportThatWaitsForAnotherDaemonHoldsUpNobody) {
  TestDaemon daemon({.link_timeout = 60s});
  Session session = open_session(daemon, 0, 0, 60s);
  Allocation memory = allocate();
  const Handle of_peer = daemon.join_silent_peer();
  Errc waited = Errc::kOk;
  std::jthread waiting([&] { waited = code_of(session.import_memory(of_peer)); });
  ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.pending_imports == 1; }));
  {
    // Asked later, answered earlier.
    Export exported = export_from(session, memory);
    Import imported = import_to(session, exported.handle());
    EXPECT_EQ(imported.size(), kBytes);
  }
  EXPECT_EQ(daemon.size().exports, 0U);
  EXPECT_EQ(daemon.size().pending_imports, 1U);
  daemon.end_silent_peer();
  waiting.join();
  EXPECT_EQ(waited, Errc::kStale);
}

TEST(SessionTest, ManyThatWaitAreAllAskedAgainWhenTheDaemonIsBack) {
  TestDaemon daemon({.link_timeout = 60s});
  Session session = open_session(daemon, 0, 0, 60s);
  const Handle of_peer = daemon.join_silent_peer();
  std::vector<Errc> codes(8, Errc::kOk);
  std::vector<std::jthread> waiting;
  for (Errc& code : codes) {
    waiting.emplace_back([&] { code = code_of(session.import_memory(of_peer)); });
  }
  ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.pending_imports == 8; }));
  // The connection breaks under all of them: each asks again once the session is back.
  daemon.kill();
  daemon.start();
  waiting.clear();
  EXPECT_THAT(codes, testing::Each(Errc::kUnavailable));  // the new life knows no such node yet
}

TEST(SessionTest, AForkedChildIsToldToOpenItsOwnAndHarmsNothing) {
  TestDaemon daemon;
  std::optional<Session> session = open_session(daemon);
  Allocation memory = allocate();
  std::optional<Export> exported = export_from(*session, memory);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused =
        code_of(session->export_memory(memory)) == Errc::kFailedPrecondition &&
        code_of(session->import_memory(exported->handle())) == Errc::kFailedPrecondition;
    exported.reset();
    session.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(import_to(*session, exported->handle()).size(), kBytes);
}

// ---- scopes ----

TEST(SessionTest, ScopesAreBoundedAndFreshWhenTakenAgain) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  std::vector<AbortScope> scopes;
  for (auto scope = session.create_scope(); scope; scope = session.create_scope()) {
    scopes.push_back(*scope);
  }
  ASSERT_EQ(scopes.size(), 62U);
  EXPECT_EQ(session.create_scope().error().code, Errc::kResourceExhausted);
  scopes[9].abort(4);
  ASSERT_TRUE(scopes[9].error());
  EXPECT_EQ(scopes[9].error()->code, Errc::kAborted);
  EXPECT_EQ(scopes[9].error()->rank, 4U);
  EXPECT_FALSE(scopes[8].error());
  session.release_scope(scopes[9]);
  const auto again = session.create_scope();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->index(), scopes[9].index());
  EXPECT_FALSE(again->error());
}

TEST(SessionTest, AScopeGivenBackTooEarlyRestsUntilItsImportsEnd) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(session, memory);
  const AbortScope scope = session.create_scope().value();
  std::optional<Import> imported = import_to(session, exported.handle(), {.scope = scope});
  session.release_scope(scope);
  EXPECT_NE(session.create_scope().value().index(), scope.index());
  imported.reset();
  EXPECT_EQ(session.create_scope().value().index(), scope.index());
}

TEST(SessionTest, ScopesOfAnotherSessionAreRefused) {
  TestDaemon daemon;
  Session session = open_session(daemon), other = open_session(daemon);
  Allocation memory = allocate();
  const auto result = session.export_memory(memory, {.scope = other.default_scope()});
  EXPECT_EQ(code_of(result), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace imex::domain::client
