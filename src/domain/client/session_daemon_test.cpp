// A daemon that restarts, stays away, comes back as another one, stops in order, or hangs.
#include "session_test_kit.hpp"

namespace imex::domain::client {
namespace {

using namespace session_kit;  // NOLINT: the words of these tests

TEST(SessionTest, ADaemonThatComesBackFindsMappingsAndHandlesAsTheyWere) {
  TestDaemon daemon;  // lease of 30 s: more than this test waits for anything
  auto [exporter, importer, memory, exported, imported] = share_memory(daemon, {.rank = 4});
  daemon.kill();
  memory.data()[1] = std::byte{77};
  EXPECT_EQ(imported.data()[1], std::byte{77});
  daemon.start();
  ASSERT_TRUE(await_event(exporter, Kind::kDaemonResumed));
  ASSERT_TRUE(await_event(importer, Kind::kDaemonResumed));
  EXPECT_FALSE(importer.default_scope().error());
  const BrokerSize size = daemon.size();
  EXPECT_EQ(size.sessions, 2U);
  EXPECT_EQ(size.exports, 1U);
  EXPECT_EQ(size.imports, 1U);
  Import second = import_to(importer, exported.handle());
  EXPECT_EQ(second.data()[1], std::byte{77});
  // What was registered again is watched again.
  daemon.move_gpu(1, 2);
  ASSERT_TRUE(await_event(importer, Kind::kImportRevoked));
  ASSERT_TRUE(await_event(importer, Kind::kImportRevoked));
  ASSERT_TRUE(await_event(exporter, Kind::kExportQuiescent));
}

TEST(SessionTest, WhatWasWithdrawnBeforeARestartCanSoonBeExportedAnew) {
  TestDaemon daemon;  // lease of 30 s: more than this test waits for anything
  auto [exporter, importer, memory, exported, imported] = share_memory(daemon);
  daemon.move_gpu(1, 2);
  ASSERT_TRUE(await_event(exporter, Kind::kExportQuiescent));
  daemon.kill();
  daemon.start();
  ASSERT_TRUE(await_event(exporter, Kind::kDaemonResumed));
  ASSERT_TRUE(await_event(exporter, Kind::kExportQuiescent));  // the new life has found out too
  ASSERT_TRUE(exporter.re_export(exported));
  EXPECT_EQ(exported.generation(), 2U);
}

TEST(SessionTest, ARequestMadeMeanwhileWaitsAndSucceeds) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Allocation memory = allocate();
  daemon.kill();
  std::jthread restarter([&] { daemon.start(); });
  Export exported = export_from(session, memory);
  restarter.join();
  EXPECT_EQ(import_to(session, exported.handle()).size(), kBytes);
}

TEST(SessionTest, ARequestMadeMeanwhileEndsAtItsDeadlineAndSaysWhy) {
  TestDaemon daemon;
  Session session = open_session(daemon, 0, 0, 100ms);
  Allocation memory = allocate();
  daemon.kill();
  const auto start = Clock::now();
  const auto result = session.export_memory(memory);
  EXPECT_GE(Clock::now() - start, 100ms);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kUnavailable);
  EXPECT_THAT(result.error().message, HasSubstr("is away"));
  EXPECT_THAT(result.error().hint, HasSubstr("resumes"));
}

TEST(SessionTest, WhatEndedWhileTheDaemonWasAwayIsNotRegisteredAgain) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Allocation memory = allocate();
  Export stays = export_from(session, memory);
  std::optional<Export> goes = export_from(session, memory);
  std::optional<Import> imported = import_to(session, stays.handle());
  daemon.kill();
  goes.reset();
  imported.reset();
  daemon.start();
  ASSERT_TRUE(await_event(session, Kind::kDaemonResumed));
  EXPECT_EQ(daemon.size().exports, 1U);
  EXPECT_EQ(daemon.size().imports, 0U);
}

TEST(SessionTest, APeerThatDiedWhileTheDaemonWasAwayIsNoticedAfterwards) {
  TestDaemon daemon({.lease = 1'000ms});
  Session session = open_session(daemon);
  Peer peer({kPeer, "export", daemon.channel(0), "7", "65536"});
  Import imported = import_to(session, Handle::from_hex(peer.line().value()).value());
  daemon.kill();
  peer.kill();
  daemon.start();
  const auto event = await_event(session, Kind::kExporterLost);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, imported.id());
  ASSERT_TRUE(session.default_scope().error());
  EXPECT_EQ(session.default_scope().error()->code, Errc::kPeerLost);
}

TEST(SessionTest, WhoEndsInOrderWhileItsDaemonComesBackIsNoLoss) {
  TestDaemon daemon;
  Session stays = open_session(daemon);
  const AbortScope scope = stays.create_scope().value();
  Allocation memory = allocate();
  Export exported = export_from(stays, memory, {.scope = scope});
  for (int round = 0; round != 50; ++round) {
    std::optional<Session> leaves(open_session(daemon, 1));
    std::optional<Import> imported(import_to(*leaves, exported.handle()));
    daemon.kill();
    daemon.start();
    ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.connections == 4; }));
    imported.reset();
    leaves.reset();
    ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.sessions == 1; }));
    ASSERT_FALSE(scope.error()) << "round " << round << ": " << scope.error()->to_string();
    ASSERT_TRUE(await_event(stays, Kind::kDaemonResumed));
  }
}

TEST(SessionTest, WhoEndsInOrderWhileItsDaemonIsAwayIsNoLoss) {
  TestDaemon daemon;  // lease of 30 s
  Session stays = open_session(daemon);
  std::optional<Session> leaves(open_session(daemon, 1));
  Allocation memory = allocate();
  std::optional<Export> exported(export_from(*leaves, memory));
  Import imported = import_to(stays, exported->handle());
  daemon.kill();
  exported.reset();
  std::jthread end([&] { leaves.reset(); });
  daemon.start();
  const auto event = await_event(stays, Kind::kExporterLost);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, imported.id());
  EXPECT_EQ(event->reason, Errc::kOk);
  EXPECT_FALSE(stays.default_scope().error());
}

TEST(SessionTest, AnExportThatEndedWhileTheDaemonWasAwayIsToldAsOneThatEnded) {
  TestDaemon daemon;  // lease of 30 s
  auto shared = share_memory(daemon);
  daemon.kill();
  {
    const Export ends = std::move(shared.exported);
  }
  daemon.start();
  const auto event = await_event(shared.importer, Kind::kExporterLost);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->reason, Errc::kOk);
  EXPECT_FALSE(shared.importer.default_scope().error());
}

TEST(SessionTest, TheSameDaemonTakesTheSessionBackWhenOnlyAConnectionBroke) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(session, memory);
  Import imported = import_to(session, exported.handle());
  daemon.drop_event_connections();
  ASSERT_TRUE(await_event(session, Kind::kDaemonResumed));
  EXPECT_EQ(daemon.size().sessions, 1U);
  EXPECT_EQ(daemon.stats().sessions_lost, 0U);
  EXPECT_EQ(import_to(session, exported.handle()).size(), kBytes);
}

TEST(SessionTest, AfterTheLeaseTheDaemonIsLostAndWaitsEnd) {
  TestDaemon daemon({.lease = 100ms});
  Session session = open_session(daemon);
  Allocation memory = allocate();
  const AbortScope unused = session.create_scope().value();
  Export exported = export_from(session, memory);
  Import imported = import_to(session, exported.handle());
  const auto start = Clock::now();
  daemon.kill();
  const WaitResult waited =
      Signal(cell_of(imported.data()))
          .wait_until(1, {.deadline = start + 10s, .abort = session.default_scope().cell()});
  EXPECT_GE(Clock::now() - start, 100ms);
  EXPECT_EQ(waited.status, WaitStatus::kAborted);
  EXPECT_EQ(session.default_scope().error()->code, Errc::kPeerLost);
  EXPECT_EQ(session.default_scope().error()->rank, kNoRank);
  EXPECT_FALSE(unused.error());
  EXPECT_TRUE(await_event(session, Kind::kDaemonLost));
  const auto result = session.export_memory(memory);
  EXPECT_EQ(code_of(result), Errc::kStale);
  EXPECT_THAT(result.error().hint, HasSubstr("open a new session"));
  imported.data()[0] = std::byte{1};  // mappings stay
}

TEST(SessionTest, ANewInstanceOfTheDaemonEndsTheSessionAtOnce) {
  TestDaemon daemon;  // lease of 30 s
  Session session = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(session, memory);
  daemon.kill();
  daemon.lose_journal();
  daemon.start();
  const auto event = await_event(session, Kind::kDaemonLost);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->reason, Errc::kPermissionDenied);
  Session again = open_session(daemon);
  EXPECT_EQ(code_of(again.import_memory(exported.handle())), Errc::kStale);
}

TEST(SessionTest, ADaemonThatShutsDownInOrderIsNotWaitedFor) {
  TestDaemon daemon;  // lease of 30 s
  Session session = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(session, memory);
  Import imported = import_to(session, exported.handle());
  daemon.shut_down();
  EXPECT_TRUE(await_event(session, Kind::kDaemonLost));
  EXPECT_EQ(session.default_scope().error()->code, Errc::kUnavailable);
}

TEST(SessionTest, AHangingDaemonFailsRequestsAtTheirDeadlineAndLateAnswersAreUndone) {
  TestDaemon daemon;
  Session session = open_session(daemon, 0, 0, 100ms);
  Allocation memory = allocate();
  {
    const auto hanging = daemon.hang();
    const auto start = Clock::now();
    EXPECT_EQ(code_of(session.export_memory(memory)), Errc::kDeadlineExceeded);
    EXPECT_GE(Clock::now() - start, 100ms);
  }
  ASSERT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.exports == 1; }));
  {
    Export exported = export_from(session, memory);
    EXPECT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.exports == 1; }));
  }
  EXPECT_TRUE(daemon.reaches([](const BrokerSize& size) { return size.exports == 0; }));
}

TEST(SessionTest, EndingASessionWhileTheDaemonIsAwayOrHangsCostsOneTimeout) {
  TestDaemon daemon;
  for (const bool hangs : {true, false}) {
    std::optional<Session> session = open_session(daemon, 0, 0, 1s);
    Allocation memory = allocate(4096);
    std::vector<Export> exports;
    for (int i = 0; i != 20; ++i) exports.push_back(export_from(*session, memory));
    std::shared_ptr<void> hanging;
    if (hangs) {
      hanging = daemon.hang();
    } else {
      daemon.kill();
    }
    const auto start = Clock::now();
    exports.clear();
    session.reset();
    EXPECT_LT(Clock::now() - start, 10s);  // twenty timeouts would be 20 s
  }
}

}  // namespace
}  // namespace imex::domain::client
