// Two daemons of one machine: imports across nodes, and links and daemons that go away.
#include "broker_harness.hpp"

namespace imex::domain {
namespace {

class BrokerLinksTest : public ::testing::Test {
 protected:
  BrokerLinksTest() : a(Node::config(0)), b(Node::config(1)) {
    for (Node* node : {&a, &b}) {
      const auto base = static_cast<std::uint64_t>(node == &a ? 100 : 200);
      node->step(FabricChanged{{gpu_of(0, base, 1), gpu_of(1, base + 1, 2)}});
      node->step(ChannelOpened{1, {}, kAnyUser});
      node->step(ChannelOpened{2, {}, kAnyUser});
    }
    link();
    exporter = a.open();
    importer = b.open();
    exported = a.export_memory(exporter, 3, 4);
  }
  void link() {
    a.step(LinkConnected{kLinkA, 1, Node::config(1).instance});
    ferry_from_a();
    b.step(LinkConnected{kLinkB, 0, Node::config(0).instance});
    ferry_from_b();
  }
  void cut() {
    a.step(ConnectionClosed{kLinkA});
    b.step(ConnectionClosed{kLinkB});
  }
  /// Carries what the last step of one side sent over the link; descriptors become new ones there.
  void carry(Node& from, ConnectionId link, Node& to, ConnectionId at) {
    std::vector<SendFrame> frames;
    for (const SendFrame& each : from.all<SendFrame>()) {
      if (each.connection == link) frames.push_back(each);
    }
    std::vector<BrokerEffect> all;
    for (const SendFrame& each : frames) {
      std::vector<FdToken> fds;
      for (std::size_t i = 0; i < each.fds.size(); ++i) fds.push_back(to.new_fd());
      const auto bytes = encode(each.frame);
      const auto& some = to.step(FrameArrived{at, *decode(bytes), fds});
      all.insert(all.end(), some.begin(), some.end());
    }
    to.effects = std::move(all);
  }
  void ferry_from_a() { carry(a, kLinkA, b, kLinkB); }
  void ferry_from_b() { carry(b, kLinkB, a, kLinkA); }

  Reply import_across(std::uint32_t scope = 6) {
    b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, scope});
    ferry_from_b();
    ferry_from_a();
    return b.reply();
  }

  static constexpr ConnectionId kLinkA = 900, kLinkB = 901;
  Node a, b;
  Client exporter, importer;
  Reply exported;
};

TEST_F(BrokerLinksTest, ImportAcrossNodesCarriesDescriptorsAndHoldsNone) {
  const std::size_t before = b.held();
  const Reply reply = import_across();
  EXPECT_EQ(reply.code, Errc::kOk) << view_error_text(reply.text);
  EXPECT_EQ(reply.node, 0U);
  EXPECT_EQ(reply.rank, 3U);
  EXPECT_EQ(reply.size_bytes, 4096U);
  EXPECT_EQ(b.held(), before);
  EXPECT_EQ(a.broker->importer_nodes(), std::vector<NodeId>{1});
}

TEST_F(BrokerLinksTest, ImporterNodeIsJournalledBeforeTheAnswer) {
  b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, 6});
  ferry_from_b();
  ASSERT_EQ(a.all<JournalImporter>().size(), 1U);
  EXPECT_TRUE(a.all<JournalImporter>()[0].present);
  EXPECT_LT(a.position<JournalImporter>(), a.position<SendFrame>());
}

TEST_F(BrokerLinksTest, ForgedHandleIsRefusedByTheExportersDaemon) {
  exported.handle.bytes[60] ^= std::byte{1};
  EXPECT_EQ(import_across().code, Errc::kPermissionDenied);
  EXPECT_EQ(a.broker->size().remote_importers, 0U);
}

TEST_F(BrokerLinksTest, OtherChannelIsRefusedAcrossNodes) {
  importer = b.open(2);
  EXPECT_EQ(b.import(importer, exported.handle).code, Errc::kPermissionDenied);
  LinkImport lie;  // and the exporter's daemon does not take the other daemon's word
  lie.handle = exported.handle;
  lie.channel = 2;
  lie.import_id = 1;
  a.frame(kLinkA, lie);
  ASSERT_EQ(a.sent<LinkImportReply>().size(), 1U);
  EXPECT_EQ(a.sent<LinkImportReply>()[0].second.code, Errc::kPermissionDenied);
}

TEST_F(BrokerLinksTest, OtherPartitionIsRefusedAcrossNodes) {
  importer = b.open(1, 1);
  EXPECT_EQ(import_across().code, Errc::kPermissionDenied);
}

TEST_F(BrokerLinksTest, UnknownNodeIsUnavailable) {
  Node lonely(Node::config(2));
  lonely.step(FabricChanged{{gpu_of(0, 300, 1)}});
  lonely.step(ChannelOpened{1, {}, kAnyUser});
  EXPECT_EQ(lonely.import(lonely.open(), exported.handle).code, Errc::kUnavailable);
}

TEST_F(BrokerLinksTest, AnotherMachineIsUnsupportedAndTheAnswerSaysWhy) {
  Node far(Node::config(2));
  far.step(FabricChanged{{gpu_of(0, 300, 1)}});
  far.step(ChannelOpened{1, {}, kAnyUser});
  far.step(PeerKnown{0, Node::config(0).instance, uuid_of(0xb1), "10.0.0.7"});
  const Reply reply = far.import(far.open(), exported.handle);
  EXPECT_EQ(reply.code, Errc::kUnsupported);
  EXPECT_EQ(
      view_error_text(reply.text),
      "exporter runs on another machine (node 0, 10.0.0.7); this build shares memory only over "
      "NVLink or on one machine");
}

TEST_F(BrokerLinksTest, ImportWaitsForTheLinkAndThenGoesOn) {
  cut();
  b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, 6});
  EXPECT_FALSE(b.replied());
  a.step(LinkConnected{kLinkA, 1, Node::config(1).instance});
  b.step(LinkConnected{kLinkB, 0, Node::config(0).instance});
  ferry_from_b();
  ferry_from_a();
  EXPECT_EQ(b.reply().code, Errc::kOk);
}

TEST_F(BrokerLinksTest, ImportWithoutALinkEndsUnavailableInTime) {
  cut();
  b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, 6});
  b.pass(seconds(2));
  EXPECT_EQ(b.reply().code, Errc::kUnavailable);
}

TEST_F(BrokerLinksTest, AnswerThatComesTooLateIsTakenBack) {
  b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, 6});
  ferry_from_b();
  const auto answer = a.effects;
  b.pass(seconds(2));
  EXPECT_EQ(b.reply().code, Errc::kUnavailable);
  ferry_from_b();
  EXPECT_EQ(a.broker->size().remote_importers, 0U);
  const std::size_t before = b.held();
  a.effects = answer;
  ferry_from_a();
  EXPECT_EQ(b.held(), before);
  EXPECT_EQ(b.sent<LinkImportEnded>().size(), 1U);
}

TEST_F(BrokerLinksTest, DeathOfTheExporterReachesTheOtherNode) {
  const Reply imported = import_across();
  a.step(ConnectionClosed{exporter.connection});
  ferry_from_a();
  EXPECT_TRUE(b.tripped(importer.session, 6, Errc::kPeerLost, 3));
  ASSERT_EQ(b.events(Event::Kind::kExporterLost).size(), 1U);
  EXPECT_EQ(b.events(Event::Kind::kExporterLost)[0].id, imported.id);
  EXPECT_TRUE(a.broker->importer_nodes().empty());
}

TEST_F(BrokerLinksTest, DeathOfTheImporterReachesTheOtherNode) {
  import_across();
  b.step(ConnectionClosed{importer.connection});
  ferry_from_b();
  EXPECT_TRUE(a.tripped(exporter.session, 4, Errc::kPeerLost, 5));
  EXPECT_EQ(a.events(Event::Kind::kImporterLost).size(), 1U);
}

TEST_F(BrokerLinksTest, OrderlyUnimportIsNoLossForTheOtherNode) {
  const Reply imported = import_across();
  b.frame(importer.connection, UnimportRequest{imported.id});
  ferry_from_b();
  EXPECT_TRUE(a.all<SetAbort>().empty());
  EXPECT_TRUE(a.events(Event::Kind::kImporterLost).empty());
  EXPECT_EQ(a.broker->size().remote_importers, 0U);
}

TEST_F(BrokerLinksTest, LossOfTheLinkHarmsNothingAndWhatEndedMeanwhileIsTold) {
  import_across();
  cut();
  EXPECT_TRUE(b.all<SetAbort>().empty());
  EXPECT_TRUE(a.all<SetAbort>().empty());
  a.step(ConnectionClosed{exporter.connection});
  EXPECT_EQ(a.broker->size().owed, 1U);
  a.step(LinkConnected{kLinkA, 1, Node::config(1).instance});
  const auto owed = a.effects;
  b.step(LinkConnected{kLinkB, 0, Node::config(0).instance});
  a.effects = owed;
  ferry_from_a();
  EXPECT_TRUE(b.tripped(importer.session, 6, Errc::kPeerLost, 3));
  EXPECT_EQ(a.broker->size().owed, 0U);
}

TEST_F(BrokerLinksTest, ReconnectRegistersLiveImportsAgain) {
  import_across();
  cut();
  a.step(LinkConnected{kLinkA, 1, Node::config(1).instance});
  b.step(LinkConnected{kLinkB, 0, Node::config(0).instance});
  ASSERT_EQ(b.sent<LinkImport>().size(), 1U);
  EXPECT_EQ(b.sent<LinkImport>()[0].second.known, 1U);
  ferry_from_b();
  ferry_from_a();
  a.pass(seconds(60));
  EXPECT_TRUE(a.events(Event::Kind::kImporterLost).empty());
  EXPECT_EQ(a.broker->size().remote_importers, 1U);
}

TEST_F(BrokerLinksTest, AnExportThatEndedInOrderOverARestartIsNoLossToAnotherNode) {
  const Reply imported = import_across();
  cut();
  a.restart({{{exporter.session, 1, 1000, 100, 5000}}, 1025, {1}});
  a.step(FabricChanged{{gpu_of(0, 100, 1), gpu_of(1, 101, 2)}});
  a.step(ChannelOpened{1, {}, kAnyUser});
  const ConnectionId back = a.connect();
  a.frame(back, Open{exporter.session, exporter.token, 0, 0}, 2);
  a.frame(back, UnexportRequest{exported.id});
  EXPECT_EQ(a.reply().code, Errc::kOk);
  link();
  ferry_from_a();
  ASSERT_EQ(b.events(Event::Kind::kExporterLost).size(), 1U);
  EXPECT_EQ(b.events(Event::Kind::kExporterLost)[0].id, imported.id);
  EXPECT_EQ(b.events(Event::Kind::kExporterLost)[0].reason, Errc::kOk);
  EXPECT_TRUE(b.all<SetAbort>().empty());
  EXPECT_EQ(a.broker->size().remote_importers, 0U);
}

TEST_F(BrokerLinksTest, ImportThatIsNotRegisteredAgainAfterAReconnectIsLost) {
  import_across();
  cut();
  a.step(LinkConnected{kLinkA, 1, Node::config(1).instance});  // and b stays quiet about it
  a.pass(seconds(32));
  EXPECT_EQ(a.events(Event::Kind::kImporterLost).size(), 1U);
}

TEST_F(BrokerLinksTest, NewInstanceOfTheExportersDaemonEndsImports) {
  import_across();
  b.step(LinkConnected{902, 0, uuid_of(0x55)});
  EXPECT_TRUE(b.tripped(importer.session, 6, Errc::kPeerLost, 3));
  EXPECT_EQ(b.events(Event::Kind::kExporterLost).size(), 1U);
  EXPECT_TRUE(b.closed(kLinkB));
}

TEST_F(BrokerLinksTest, EndedInstanceOfTheImportersDaemonEndsItsImports) {
  import_across();
  a.step(PeerInstanceEnded{1, Node::config(1).instance, Errc::kPeerLost});
  EXPECT_TRUE(a.tripped(exporter.session, 4, Errc::kPeerLost, 5));
  EXPECT_TRUE(a.broker->importer_nodes().empty());
  ASSERT_EQ(a.all<JournalImporter>().size(), 1U);
  EXPECT_FALSE(a.all<JournalImporter>()[0].present);
}

TEST_F(BrokerLinksTest, EndOfAnotherInstanceOfThatNodeChangesNothing) {
  import_across();
  a.step(PeerInstanceEnded{1, uuid_of(0x56), Errc::kPeerLost});
  EXPECT_TRUE(a.effects.empty());
}

TEST_F(BrokerLinksTest, SilentMachineAbortsScopesAndKeepsMappings) {
  import_across();
  b.step(PeerSilent{0, Node::config(0).instance});
  EXPECT_TRUE(b.tripped(importer.session, 6, Errc::kPeerLost, 3));
  EXPECT_TRUE(b.events(Event::Kind::kExporterLost).empty());
  EXPECT_EQ(b.broker->size().imports, 1U);
  a.step(PeerSilent{1, Node::config(1).instance});
  EXPECT_TRUE(a.tripped(exporter.session, 4, Errc::kPeerLost, 5));
}

TEST_F(BrokerLinksTest, HandleOfAReplacedDaemonIsStaleWithoutAsking) {
  b.step(PeerKnown{0, uuid_of(0x57), uuid_of(0xb0), "127.88.0.1"});
  b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, 6});
  EXPECT_EQ(b.reply().code, Errc::kStale);
}

TEST_F(BrokerLinksTest, ExportersGpuThatMovesRevokesAcrossNodes) {
  const Reply imported = import_across();
  a.step(FabricChanged{{gpu_of(0, 100, 7), gpu_of(1, 101, 2)}});
  EXPECT_TRUE(a.tripped(exporter.session, 4, Errc::kRevoked, kNoRank));
  ferry_from_a();
  EXPECT_TRUE(b.tripped(importer.session, 6, Errc::kRevoked, 3));
  EXPECT_EQ(b.events(Event::Kind::kRevokeImport).size(), 1U);
  b.frame(importer.connection, RevokeAck{imported.id});
  ferry_from_b();
  ASSERT_EQ(a.events(Event::Kind::kExportQuiescent).size(), 1U);
  EXPECT_EQ(a.events(Event::Kind::kExportQuiescent)[0].acknowledged, 1U);
}

TEST_F(BrokerLinksTest, ImportersGpuThatMovesRevokesAtOnceAndEndsTheExport) {
  const Reply imported = import_across();
  b.step(FabricChanged{{gpu_of(0, 200, 7), gpu_of(1, 201, 2)}});
  EXPECT_TRUE(b.tripped(importer.session, 6, Errc::kRevoked, 3));
  ferry_from_b();
  EXPECT_TRUE(a.tripped(exporter.session, 4, Errc::kRevoked, kNoRank));
  EXPECT_EQ(a.events(Event::Kind::kExportRevoked).size(), 1U);
  b.frame(importer.connection, RevokeAck{imported.id});
  ferry_from_b();
  EXPECT_EQ(a.events(Event::Kind::kExportQuiescent).size(), 1U);
}

TEST_F(BrokerLinksTest, KilledImporterOnAnotherNodeIsCountedAsKilled) {
  import_across();
  a.step(FabricChanged{{gpu_of(0, 100, 7), gpu_of(1, 101, 2)}});
  ferry_from_a();
  b.pass(milliseconds(100));
  ASSERT_EQ(b.all<KillProcess>().size(), 1U);
  b.step(ProcessExited{importer.session});
  ferry_from_b();
  ASSERT_EQ(a.events(Event::Kind::kExportQuiescent).size(), 1U);
  EXPECT_EQ(a.events(Event::Kind::kExportQuiescent)[0].killed, 1U);
}

TEST_F(BrokerLinksTest, UnreachableImporterCountsAsSilentInTime) {
  import_across();
  cut();
  a.step(FabricChanged{{gpu_of(0, 100, 7), gpu_of(1, 101, 2)}});
  a.pass(seconds(2));
  ASSERT_EQ(a.events(Event::Kind::kExportQuiescent).size(), 1U);
  EXPECT_EQ(a.events(Event::Kind::kExportQuiescent)[0].silent, 1U);
}

TEST_F(BrokerLinksTest, StrangeFrameEndsTheLinkAndReleasesDescriptors) {
  const std::size_t before = a.held();
  a.frame(kLinkA, Open{}, 2);
  EXPECT_TRUE(a.closed(kLinkA));
  EXPECT_EQ(a.held(), before);
}

TEST_F(BrokerLinksTest, GrantWithoutDescriptorsIsRefused) {
  b.frame(importer.connection, ImportRequest{exported.handle, 0, 5, 6});
  const std::uint32_t request = b.all<SendFrame>()[0].frame.request_id;
  LinkImportReply reply;
  reply.import_id = b.sent<LinkImport>()[0].second.import_id;
  reply.partition_domain = uuid_of(0xfa);
  reply.partition_clique = 1;
  b.step(FrameArrived{kLinkB, Frame{request, reply}, {}});
  EXPECT_EQ(b.reply().code, Errc::kInternal);
  EXPECT_EQ(b.sent<LinkImportEnded>().size(), 1U);
}

/// The exporter's daemon dies; the journal names node 1 as an importer.
class BrokerLinksResumeTest : public BrokerLinksTest {
 protected:
  /// Back, and so is the exporter, whose export was revoked in the life before.
  void restart_exporters_daemon() {
    cut();
    BrokerMemory memory;
    memory.next_id = 1025;
    memory.importers = {1};
    memory.sessions.push_back({exporter.session, 1, 1000, 100, 9000});
    a.restart(memory);
    a.step(FabricChanged{{gpu_of(0, 100, 2)}});
    a.step(ChannelOpened{1, {}, kAnyUser});
    const ConnectionId back = a.connect();
    a.frame(back, Open{exporter.session, exporter.token, 0, 0}, 2);
    a.frame(back, ExportRequest{exported.id, 1, 3, 4, 4096, 1}, 2);
    EXPECT_EQ(a.reply().code, Errc::kOk);
    a.frame(back, RevokeAck{0});
    EXPECT_EQ(quiescent(), 0U);  // what node 1 has is not known
  }
  [[nodiscard]] std::size_t quiescent() const {
    return a.events(Event::Kind::kExportQuiescent).size();
  }
};

TEST_F(BrokerLinksResumeTest, RevokedExportIsQuiescentOnceTheImportersNodeGaveItUp) {
  const Reply imported = import_across();
  restart_exporters_daemon();
  EXPECT_EQ(a.broker->importer_nodes(), std::vector<NodeId>{1});
  link();
  EXPECT_EQ(quiescent(), 0U);
  EXPECT_EQ(a.broker->size().remote_importers, 1U);
  ferry_from_a();
  EXPECT_EQ(b.events(Event::Kind::kRevokeImport).size(), 1U);
  b.frame(importer.connection, RevokeAck{imported.id});
  ferry_from_b();
  ASSERT_EQ(quiescent(), 1U);
  EXPECT_EQ(a.events(Event::Kind::kExportQuiescent)[0].acknowledged, 1U);
  EXPECT_TRUE(a.broker->importer_nodes().empty());
}

TEST_F(BrokerLinksResumeTest, AnImportThatIsJustGivenUpIsWaitedForToo) {
  const Reply imported = import_across();
  b.step(FabricChanged{{gpu_of(0, 200, 7)}});  // b revokes; its client has not answered yet
  restart_exporters_daemon();
  link();
  EXPECT_EQ(quiescent(), 0U);
  EXPECT_EQ(a.broker->size().remote_importers, 1U);
  b.frame(importer.connection, RevokeAck{imported.id});
  ferry_from_b();
  EXPECT_EQ(quiescent(), 1U);
}

TEST_F(BrokerLinksResumeTest, RevokedExportIsQuiescentAtOnceWhenTheNodeHasNothingOfIt) {
  restart_exporters_daemon();
  link();
  EXPECT_EQ(quiescent(), 1U);
  ASSERT_EQ(a.all<JournalImporter>().size(), 1U);
  EXPECT_FALSE(a.all<JournalImporter>()[0].present);
}

TEST_F(BrokerLinksResumeTest, RevokedExportIsQuiescentAtOnceWhenTheNodeIsGone) {
  restart_exporters_daemon();
  a.step(PeerKnown{1, Node::config(1).instance, uuid_of(0xb0), "127.88.0.2"});
  a.step(PeerInstanceEnded{1, Node::config(1).instance, Errc::kPeerLost});
  EXPECT_EQ(quiescent(), 1U);
}

TEST_F(BrokerLinksResumeTest, ANodeThatRestartedTooSpeaksForItsSessionsOnceTheyAreBack) {
  import_across();
  restart_exporters_daemon();
  BrokerMemory memory;
  memory.next_id = 1025;
  memory.sessions.push_back({importer.session, 1, 1000, 200, 9000});
  b.restart(memory);
  b.step(FabricChanged{{gpu_of(0, 200, 1)}});
  b.step(ChannelOpened{1, {}, kAnyUser});
  link();
  EXPECT_EQ(quiescent(), 0U);
  b.step(ProcessExited{importer.session});
  ferry_from_b();
  EXPECT_EQ(quiescent(), 1U);
}

}  // namespace
}  // namespace imex::domain
