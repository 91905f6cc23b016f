// What a session is told when a peer, or its channel, is lost. Peers that must die are processes of
// their own.
#include "session_test_kit.hpp"

namespace imex::domain::client {
namespace {

using namespace session_kit;  // NOLINT: the words of these tests

TEST(SessionTest, AKilledExporterEndsTheWaitWithItsRank) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Peer peer({kPeer, "export", daemon.channel(0), "7", "65536"});
  const auto hex = peer.line();
  ASSERT_TRUE(hex);
  Import imported = import_to(session, Handle::from_hex(*hex).value(), {.rank = 1});
  std::jthread killer([&] { peer.kill(); });
  const auto waited =
      Signal(cell_of(imported.data()))
          .wait_until(std::uint64_t{1} << 62,
                      {.deadline = Clock::now() + 10s, .abort = session.default_scope().cell()})
          .to_result();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::kPeerLost);
  EXPECT_EQ(waited.error().rank, 7U);
  const auto event = await_event(session, Kind::kExporterLost);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, imported.id());
  EXPECT_EQ(event->rank, 7U);
  EXPECT_EQ(event->reason, Errc::kPeerLost);
  EXPECT_EQ(imported.data()[kBytes - 1], std::byte{0x5a});  // the mapping stays readable
  EXPECT_TRUE(imported.begin_operation());
}

TEST(SessionTest, AnExporterThatEndsInOrderAbortsNothing) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Peer peer({kPeer, "export", daemon.channel(0), "7", "65536"});
  Import imported = import_to(session, Handle::from_hex(peer.line().value()).value());
  EXPECT_EQ(peer.finish(), 0);
  const auto event = await_event(session, Kind::kExporterLost);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->reason, Errc::kOk);
  EXPECT_FALSE(session.default_scope().error());
}

TEST(SessionTest, AKilledImporterIsAnEventAndTripsTheScopeOnlyWhereOneWasNamed) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Allocation memory = allocate();
  const AbortScope scope = session.create_scope().value();
  Export served = export_from(session, memory, {.rank = 0});
  Export member = export_from(session, memory, {.rank = 0, .scope = scope});
  for (const Export* each : {&served, &member}) {
    Peer peer({kPeer, "import", daemon.channel(0), "9", each->handle().to_hex()});
    ASSERT_EQ(peer.line(), "0");
    peer.kill();
    const auto event = await_event(session, Kind::kImporterLost);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->id, each->id());
    EXPECT_EQ(event->rank, 9U);
    EXPECT_EQ(scope.error().has_value(), each == &member);
  }
  EXPECT_EQ(scope.error()->code, Errc::kPeerLost);
  EXPECT_EQ(scope.error()->rank, 9U);
  EXPECT_FALSE(session.default_scope().error());
}

TEST(SessionTest, Section18_09_EachImportSaysWhatALossDoesToIt) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Peer peer({kPeer, "export", daemon.channel(0), "7", "65536"});
  const Handle handle = Handle::from_hex(peer.line().value()).value();
  const AbortScope scope = session.create_scope().value();
  Import fails = import_to(session, handle, {.scope = scope});
  Import notifies = import_to(session, handle, {.on_loss = LossPolicy::kNotify});
  Import keeps = import_to(session, handle, {.on_loss = LossPolicy::kKeep});
  peer.kill();
  std::vector<std::uint64_t> told;
  for (int i = 0; i != 2; ++i) {
    const auto event = await_event(session, Kind::kExporterLost);
    ASSERT_TRUE(event);
    told.push_back(event->id);
  }
  EXPECT_THAT(told, testing::UnorderedElementsAre(fails.id(), notifies.id()));
  ASSERT_TRUE(scope.error());
  EXPECT_EQ(scope.error()->rank, 7U);
  EXPECT_FALSE(session.default_scope().error());
  for (Import* each : {&fails, &notifies, &keeps}) {
    EXPECT_TRUE(each->begin_operation());
    EXPECT_EQ(each->data()[each->size() - 1], std::byte{0x5A});  // as the peer left it
  }
  EXPECT_FALSE(session.next_event());
}

TEST(SessionTest, Section18_09_ARevocationIsToldWhateverThePolicy) {
  TestDaemon daemon;
  Session exporter = open_session(daemon), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory);
  Import keeps = import_to(importer, exported.handle(), {.on_loss = LossPolicy::kKeep});
  daemon.move_gpu(1, 2);
  const auto event = await_event(importer, Kind::kImportRevoked);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, keeps.id());
  EXPECT_FALSE(keeps.begin_operation());
  EXPECT_FALSE(importer.default_scope().error());
}

TEST(SessionTest, AScopeBesideAPolicyThatTripsNoneIsRefused) {
  TestDaemon daemon;
  Session session = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(session, memory);
  EXPECT_EQ(code_of(session.import_memory(exported.handle(), {.scope = session.default_scope(),
                                                              .on_loss = LossPolicy::kNotify})),
            Errc::kInvalidArgument);
}

TEST(SessionTest, AReleasedChannelIsNoLostDaemon) {
  TestDaemon daemon;  // lease of 30 s: nobody waits for it
  Session session = open_session(daemon, 0, 1), beside = open_session(daemon);
  Allocation memory = allocate();
  Export exported = export_from(session, memory);
  Import imported = import_to(session, exported.handle());
  daemon.release_channel(1);
  ASSERT_TRUE(await_event(session, Kind::kImportRevoked));
  const auto event = await_event(session, Kind::kChannelReleased);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->reason, Errc::kRevoked);
  const auto refused = session.export_memory(memory);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kRevoked);
  EXPECT_THAT(refused.error().message, HasSubstr("channel 1 was released"));
  EXPECT_THAT(refused.error().hint, HasSubstr("granted anew"));
  EXPECT_FALSE(taken_event(session, Kind::kDaemonLost));
  Allocation other = allocate();
  EXPECT_EQ(export_from(beside, other).generation(), 1U);  // the daemon goes on
}

TEST(SessionTest, TheCallbackHearsEventsAndIsSilentOnceReplaced) {
  TestDaemon daemon;
  std::optional<Session> session = open_session(daemon);
  std::optional<Import> imported;
  std::atomic<int> heard{0};
  session->on_event([&heard](const SessionEvent& event) {
    if (event.kind == Kind::kExporterLost) heard.fetch_add(1);
  });
  for (int round = 0; round != 2; ++round) {
    Peer peer({kPeer, "export", daemon.channel(0), "7", "4096"});
    imported = import_to(*session, Handle::from_hex(peer.line().value()).value());
    peer.kill();
    ASSERT_TRUE(await_event(*session, Kind::kExporterLost));
    EXPECT_EQ(heard.load(), 1);
    session->on_event(nullptr);
  }
}

}  // namespace
}  // namespace imex::domain::client
