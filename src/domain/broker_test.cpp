// The rules on one node. Across nodes: broker_links_test.cpp; revocation: broker_revoke_test.cpp;
// over a restart: broker_resume_test.cpp.
#include "broker_fixture.hpp"

namespace imex::domain {
namespace {

// ---- opening ----

TEST_F(BrokerTest, OpenAnswersWithSessionTokenAndGpu) {
  const ConnectionId id = node.connect();
  node.frame(id, Open{0, {}, 1, 0}, 2);
  const Reply reply = node.reply();
  EXPECT_EQ(reply.code, Errc::kOk);
  EXPECT_EQ(reply.gpu_uid, 101U);
  EXPECT_EQ(reply.channel, 1U);
  EXPECT_EQ(reply.lease_ms, 30'000U);
  EXPECT_NE(reply.token, Secret{});
}

TEST_F(BrokerTest, SessionIsJournalledBeforeItIsAnswered) {
  node.open();
  EXPECT_LT(node.position<JournalSession>(), node.position<AdoptSession>());
  EXPECT_LT(node.position<AdoptSession>(), node.position<SendFrame>());
}

TEST_F(BrokerTest, FirstFrameMustOpenASession) {
  const ConnectionId id = node.connect();
  node.frame(id, UnexportRequest{1}, 2);
  EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  EXPECT_TRUE(node.closed(id));
  EXPECT_EQ(node.held(), 0U);
}

TEST_F(BrokerTest, ConnectionThatNeverOpensIsClosed) {
  const ConnectionId id = node.connect();
  node.pass(seconds(11));
  EXPECT_TRUE(node.closed(id));
}

TEST_F(BrokerTest, OpenNeedsTwoDescriptors) {
  for (const std::size_t count : {0U, 1U, 3U}) {
    const ConnectionId id = node.connect();
    node.frame(id, Open{0, {}, 0, 0}, count);
    EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
    EXPECT_EQ(node.held(), 0U);
  }
}

TEST_F(BrokerTest, OnlyTheGrantedUserOrRootMayOpen) {
  node.step(ChannelOpened{3, {}, 500});
  const ConnectionId stranger = node.connect(3, 501);
  node.frame(stranger, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kPermissionDenied);
  node.open(3, 0, 500);
  node.open(3, 0, 0);
}

TEST_F(BrokerTest, OnlyGrantedGpusMayBeClaimed) {
  node.step(ChannelOpened{3, {101}, kAnyUser});
  const ConnectionId id = node.connect(3);
  node.frame(id, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kPermissionDenied);
  const ConnectionId any = node.connect(3);
  node.frame(any, Open{0, {}, UINT32_MAX, 0}, 2);
  EXPECT_EQ(node.reply().gpu_uid, 101U);
}

TEST_F(BrokerTest, UnknownOrDetachedGpuIsRefused) {
  ConnectionId id = node.connect();
  node.frame(id, Open{0, {}, 9, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kNotFound);
  fabric::Gpu detached = gpu_of(0, 100, 1);
  detached.attached = false;
  node.step(FabricChanged{{detached}});
  id = node.connect();
  node.frame(id, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kFailedPrecondition);
}

TEST_F(BrokerTest, ChannelThatIsNotGrantedIsRefused) {
  const ConnectionId id = node.connect(77);
  node.frame(id, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kFailedPrecondition);
}

TEST_F(BrokerTest, SessionLimitOfAChannelHolds) {
  BrokerConfig config = Node::config();
  config.limits.sessions_max = 1;
  Node small(config);
  prepare(small);
  small.open();
  const ConnectionId id = small.connect();
  small.frame(id, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(small.reply().code, Errc::kResourceExhausted);
  small.open(2);  // another channel has its own limit
}

TEST_F(BrokerTest, BrokenJournalRefusesNewSessionsAndKeepsOldOnesWorking) {
  const Client client = node.open();
  node.broker->set_journal_broken(true);
  const ConnectionId id = node.connect();
  node.frame(id, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kResourceExhausted);
  EXPECT_EQ(node.export_memory(client).code, Errc::kOk);
  node.broker->set_journal_broken(false);
  node.open();
}

TEST_F(BrokerTest, IdsOfABlockThatCouldNotBeWrittenAreNeverUsed) {
  Node fresh(Node::config());
  fresh.step(ChannelOpened{1, {}, kAnyUser});
  ASSERT_EQ(fresh.all<JournalNextId>().size(), 1U);
  const std::uint64_t written = fresh.all<JournalNextId>()[0].next_id;
  fresh.step(FabricChanged{{gpu_of(0, 100, 1)}});
  const Client client = fresh.open();
  std::uint64_t highest = 0;
  bool refused = false;
  for (int i = 0; i < 3000 && !refused; ++i) {
    const Reply reply = fresh.export_memory(client);
    if (!fresh.all<JournalNextId>().empty()) fresh.broker->set_journal_broken(true);
    refused = reply.code == Errc::kResourceExhausted;
    if (!refused) highest = std::max<std::uint64_t>(highest, Seal::number_of(reply.id));
  }
  EXPECT_TRUE(refused);
  EXPECT_LT(highest, written);
}

// ---- events connection ----

TEST_F(BrokerTest, EventsGoToTheSecondConnectionOnceItIsAttached) {
  const Client exporter = node.open();
  const Client importer = node.open();
  const Reply exported = node.export_memory(exporter);
  node.import(importer, exported.handle);
  const ConnectionId events = node.connect();
  node.frame(events, AttachEvents{importer.session, importer.token});
  ASSERT_EQ(node.reply().code, Errc::kOk);
  node.step(ConnectionClosed{exporter.connection});
  ASSERT_EQ(node.sent<Event>().size(), 1U);
  EXPECT_EQ(node.sent<Event>()[0].first, events);
}

TEST_F(BrokerTest, EventsConnectionNeedsTheToken) {
  const Client client = node.open();
  const ConnectionId id = node.connect();
  Secret wrong = client.token;
  wrong[15] ^= std::byte{1};
  node.frame(id, AttachEvents{client.session, wrong});
  EXPECT_EQ(node.reply().code, Errc::kPermissionDenied);
  EXPECT_TRUE(node.closed(id));
}

TEST_F(BrokerTest, EndOfTheEventsConnectionIsNoDeath) {
  const Client client = node.open();
  const ConnectionId events = node.connect();
  node.frame(events, AttachEvents{client.session, client.token});
  node.step(ConnectionClosed{events});
  EXPECT_EQ(node.broker->size().sessions, 1U);
  EXPECT_EQ(node.export_memory(client).code, Errc::kOk);
}

// ---- export and import ----

TEST_F(BrokerTest, ImportGivesTheExportersDescriptors) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter, 3, kNoScope, 8192);
  ASSERT_EQ(exported.code, Errc::kOk);
  const std::vector<FdToken> memory = node.last_fds;
  const Client importer = node.open(1, 1);
  const Reply imported = node.import(importer, exported.handle);
  EXPECT_EQ(imported.code, Errc::kOk);
  EXPECT_EQ(imported.size_bytes, 8192U);
  EXPECT_EQ(imported.rank, 3U);
  EXPECT_EQ(imported.gpu_uid, 100U);
  EXPECT_EQ(node.all<SendFrame>().back().fds, memory);
}

TEST_F(BrokerTest, Section18_10_EveryFlippedBitOfAHandleIsRefused) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter);
  const Client importer = node.open();
  for (std::size_t bit = 0; bit < 512; ++bit) {
    Handle forged = exported.handle;
    forged.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const Reply reply = node.import(importer, forged);
    EXPECT_NE(reply.code, Errc::kOk) << "bit " << bit;
    EXPECT_TRUE(node.all<SendFrame>().back().fds.empty());
  }
  EXPECT_EQ(node.broker->size().imports, 0U);
  EXPECT_EQ(node.import(importer, exported.handle).code, Errc::kOk);
}

TEST_F(BrokerTest, ForgerLearnsNothingButNotValidHere) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter);
  const Client importer = node.open();
  std::set<std::string> answers;
  for (const std::size_t byte : {0U, 17U, 24U, 50U, 63U}) {  // export, channel, GPU, MAC
    Handle forged = exported.handle;
    forged.bytes[byte] ^= std::byte{0x40};
    answers.insert(std::string(view_error_text(node.import(importer, forged).text)));
  }
  EXPECT_EQ(answers.size(), 1U);
}

TEST_F(BrokerTest, Section18_10_HandleOfAnotherChannelIsRefused) {
  const Client exporter = node.open(1);
  const Reply exported = node.export_memory(exporter);
  const Client importer = node.open(2);
  EXPECT_EQ(node.import(importer, exported.handle).code, Errc::kPermissionDenied);
}

TEST_F(BrokerTest, Section18_11_HandleOfAnotherDomainWithTheSameKeyIsRefused) {
  BrokerConfig other = Node::config();
  other.domain_id = uuid_of(0xd1);
  Node foreign(other);
  prepare(foreign);
  const Client far = foreign.open();
  const Reply exported = foreign.export_memory(far);
  const Client exporter = node.open();
  node.export_memory(exporter);
  EXPECT_EQ(node.import(exporter, exported.handle).code, Errc::kPermissionDenied);
}

TEST_F(BrokerTest, HandleOfAReplacedDaemonIsStale) {
  BrokerConfig former = Node::config();
  former.instance = uuid_of(0x99);
  Node before(former);
  prepare(before);
  const Reply exported = before.export_memory(before.open());
  EXPECT_EQ(node.import(node.open(), exported.handle).code, Errc::kStale);
}

TEST_F(BrokerTest, HandleIsNotReplayedAfterTheExportersDeath) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter);
  node.step(ConnectionClosed{exporter.connection});
  const Client importer = node.open();
  EXPECT_EQ(node.import(importer, exported.handle).code, Errc::kNotFound);
  EXPECT_EQ(node.held(), 2U);  // the importer's own
}

TEST_F(BrokerTest, RefusalNamesBothPartitions) {
  const Client exporter = node.open(1, 0);
  const Reply exported = node.export_memory(exporter);
  const Client importer = node.open(1, 2);
  const Reply reply = node.import(importer, exported.handle);
  EXPECT_EQ(reply.code, Errc::kPermissionDenied);
  const std::string text(view_error_text(reply.text));
  EXPECT_NE(text.find(gpu_of(0, 100, 1).partition.to_string()), std::string::npos) << text;
  EXPECT_NE(text.find(gpu_of(2, 102, 2).partition.to_string()), std::string::npos) << text;
}

TEST_F(BrokerTest, Section18_10_LimitsOfExportsImportsAndBytesHoldPerChannel) {
  BrokerConfig config = Node::config();
  config.limits.exports_max = 2;
  config.limits.imports_max = 1;
  config.limits.export_bytes_max = 10'000;
  Node small(config);
  prepare(small);
  const Client client = small.open();
  EXPECT_EQ(small.export_memory(client, 0, kNoScope, 10'001).code, Errc::kResourceExhausted);
  EXPECT_EQ(small.export_memory(client, 0, kNoScope, UINT64_MAX).code, Errc::kResourceExhausted);
  const Reply exported = small.export_memory(client);
  EXPECT_EQ(small.export_memory(client).code, Errc::kOk);
  EXPECT_EQ(small.export_memory(client, 0, kNoScope, 1).code, Errc::kResourceExhausted);
  EXPECT_EQ(small.import(client, exported.handle).code, Errc::kOk);
  EXPECT_EQ(small.import(client, exported.handle).code, Errc::kResourceExhausted);
  EXPECT_GE(small.broker->usage()[0].refused, 4U);
}

TEST_F(BrokerTest, BadExportsAreRefusedAndTheirDescriptorsReleased) {
  const Client client = node.open();
  const std::size_t before = node.held();
  node.frame(client.connection, ExportRequest{0, 1, 0, kNoScope, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  node.frame(client.connection, ExportRequest{0, 1, 0, 63, 4096, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  for (const std::uint32_t generation : {0U, UINT32_MAX}) {
    node.frame(client.connection, ExportRequest{0, generation, 0, kNoScope, 4096, 0}, 2);
    EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  }
  node.frame(client.connection, ExportRequest{0, 1, 0, kNoScope, 4096, 1}, 2);
  EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  node.frame(client.connection, ExportRequest{0, 1, 0, kNoScope, 4096, 0}, 1);
  EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  node.frame(client.connection, ExportRequest{4711, 1, 0, kNoScope, 4096, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kPermissionDenied);
  EXPECT_EQ(node.held(), before);
}

TEST_F(BrokerTest, NewExportOfAnAllocationThatMovedKeepsItsGeneration) {
  const Client client = node.open();
  node.frame(client.connection, ExportRequest{0, 7, 0, kNoScope, 4096, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kOk);
  EXPECT_EQ(node.reply().generation, 7U);
  EXPECT_EQ(node.import(client, node.reply().handle).generation, 7U);
}

TEST_F(BrokerTest, UsageReturnsToZeroAfterUnimportUnexportAndClose) {
  const Client exporter = node.open();
  const Client importer = node.open();
  const Reply exported = node.export_memory(exporter);
  const Reply imported = node.import(importer, exported.handle);
  node.frame(importer.connection, UnimportRequest{imported.id});
  EXPECT_EQ(node.reply().code, Errc::kOk);
  node.frame(exporter.connection, UnexportRequest{exported.id});
  EXPECT_EQ(node.reply().code, Errc::kOk);
  node.frame(exporter.connection, Close{});
  node.frame(importer.connection, Close{});
  const ChannelUsage usage = node.broker->usage()[0];
  EXPECT_EQ(usage.sessions + usage.exports + usage.imports, 0U);
  EXPECT_EQ(usage.export_bytes, 0U);
  EXPECT_EQ(node.held(), 0U);
  EXPECT_EQ(node.broker->next_deadline(), kNever);
}

TEST_F(BrokerTest, IdsOfOtherSessionsAreRefused) {
  const Client owner = node.open();
  const Client thief = node.open();
  const Reply exported = node.export_memory(owner);
  const Reply imported = node.import(owner, exported.handle);
  node.frame(thief.connection, UnexportRequest{exported.id});
  EXPECT_EQ(node.reply().code, Errc::kNotFound);
  node.frame(thief.connection, UnimportRequest{imported.id});
  EXPECT_EQ(node.reply().code, Errc::kNotFound);
  node.frame(thief.connection, ExportRequest{exported.id, 1, 0, kNoScope, 4096, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kPermissionDenied);
  EXPECT_EQ(node.broker->size().exports, 1U);
}

TEST_F(BrokerTest, FrameOfADaemonEndsAClientsConnection) {
  const Client client = node.open();
  node.frame(client.connection, LinkImportEnded{1, 0}, 1);
  EXPECT_EQ(node.reply().code, Errc::kInvalidArgument);
  EXPECT_TRUE(node.closed(client.connection));
  EXPECT_EQ(node.broker->size().sessions, 0U);
}

// ---- death ----

TEST_F(BrokerTest, DeathOfAnExporterTripsImportersFirstAndThenTellsThem) {
  const Client exporter = node.open();
  const Client importer = node.open();
  const Reply exported = node.export_memory(exporter, 7);
  const Reply imported = node.import(importer, exported.handle, 1, 5);
  node.step(ConnectionClosed{exporter.connection});
  EXPECT_TRUE(node.tripped(importer.session, 5, Errc::kPeerLost, 7));
  const auto events = node.events(Event::Kind::kExporterLost);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].id, imported.id);
  EXPECT_EQ(events[0].rank, 7U);
  EXPECT_EQ(events[0].reason, Errc::kPeerLost);
  EXPECT_LT(node.position<SetAbort>(), node.position<SendFrame>());
}

TEST_F(BrokerTest, DeathOfAnImporterTripsTheExportersScope) {
  const Client exporter = node.open();
  const Client importer = node.open();
  const Reply exported = node.export_memory(exporter, 0, 9);
  node.import(importer, exported.handle, 4);
  node.step(ProcessExited{importer.session});
  EXPECT_TRUE(node.tripped(exporter.session, 9, Errc::kPeerLost, 4));
  const auto events = node.events(Event::Kind::kImporterLost);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].id, exported.id);
  EXPECT_TRUE(node.closed(importer.connection));
}

TEST_F(BrokerTest, DeathOfAnImporterIsOnlyAnEventWithoutAScope) {
  const Client exporter = node.open();
  const Client importer = node.open();
  node.import(importer, node.export_memory(exporter).handle, 4);
  node.step(ConnectionClosed{importer.connection});
  EXPECT_TRUE(node.all<SetAbort>().empty());
  EXPECT_EQ(node.events(Event::Kind::kImporterLost).size(), 1U);
}

TEST_F(BrokerTest, OrderlyCloseAbortsNobody) {
  const Client exporter = node.open();
  const Client importer = node.open();
  node.import(importer, node.export_memory(exporter).handle);
  node.frame(exporter.connection, Close{});
  EXPECT_TRUE(node.all<SetAbort>().empty());
  const auto events = node.events(Event::Kind::kExporterLost);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].reason, Errc::kOk);
  node.step(ConnectionClosed{exporter.connection});  // what follows is no loss
  EXPECT_TRUE(node.effects.empty());
  EXPECT_EQ(node.broker->stats().sessions_lost, 0U);
}

TEST_F(BrokerTest, ExitAfterEndOfFileIsNotCountedTwice) {
  const Client client = node.open();
  node.step(ConnectionClosed{client.connection});
  node.step(ProcessExited{client.session});
  EXPECT_EQ(node.broker->stats().sessions_lost, 1U);
  EXPECT_EQ(node.held(), 0U);
}

TEST_F(BrokerTest, ShutdownTellsEverybodyAndReleasesAll) {
  const Client exporter = node.open();
  const Client importer = node.open();
  node.import(importer, node.export_memory(exporter).handle, 1, 2);
  node.step(ShutdownRequested{});
  EXPECT_EQ(node.events(Event::Kind::kShuttingDown).size(), 2U);
  EXPECT_TRUE(node.tripped(importer.session, 2, Errc::kUnavailable, 0));
  EXPECT_EQ(node.held(), 0U);
  node.step(ClientConnected{99, 1, 0});
  EXPECT_TRUE(node.closed(99));
}

}  // namespace
}  // namespace imex::domain
