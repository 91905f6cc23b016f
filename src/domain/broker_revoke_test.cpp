// Revocation on one node: a GPU leaves the partition, or a channel is released.
#include "broker_harness.hpp"

namespace imex::domain {
namespace {

class BrokerRevokeTest : public ::testing::Test {
 protected:
  explicit BrokerRevokeTest(bool kills = true) : node(config(kills)) {
    node.step(FabricChanged{{gpu_of(0, 100, 1), gpu_of(1, 101, 1)}});
    node.step(ChannelOpened{1, {}, kAnyUser});
    exporter = node.open(1, 0);
    importer = node.open(1, 1);
    exported = node.export_memory(exporter, 3, 4);
    imported = node.import(importer, exported.handle, 5, 6);
  }
  static BrokerConfig config(bool kills) {
    BrokerConfig c = Node::config();
    c.kill_silent_importers = kills;
    return c;
  }
  void move_away() { node.step(FabricChanged{{gpu_of(0, 100, 2), gpu_of(1, 101, 1)}}); }
  Event quiescent() {
    const auto events = node.events(Event::Kind::kExportQuiescent);
    EXPECT_EQ(events.size(), 1U);
    return events.empty() ? Event{} : events[0];
  }
  Node node;
  Client exporter, importer;
  Reply exported, imported;
};

class BrokerRevokeWithoutKillTest : public BrokerRevokeTest {
 protected:
  BrokerRevokeWithoutKillTest() : BrokerRevokeTest(false) {}
};

TEST_F(BrokerRevokeTest, AbortWordsComeBeforeEvents) {
  move_away();
  EXPECT_TRUE(node.tripped(importer.session, 6, Errc::kRevoked, 3));
  EXPECT_TRUE(node.tripped(exporter.session, 4, Errc::kRevoked, kNoRank));
  EXPECT_LT(node.position<SetAbort>(), node.position<SendFrame>());
  ASSERT_EQ(node.events(Event::Kind::kRevokeImport).size(), 1U);
  EXPECT_EQ(node.events(Event::Kind::kRevokeImport)[0].id, imported.id);
  EXPECT_EQ(node.events(Event::Kind::kExportRevoked).size(), 1U);
}

TEST_F(BrokerRevokeTest, AcknowledgedRevocationBecomesQuiescent) {
  move_away();
  node.frame(importer.connection, RevokeAck{imported.id});
  EXPECT_EQ(quiescent().acknowledged, 1U);
  EXPECT_EQ(node.broker->next_deadline(), kNever);
}

TEST_F(BrokerRevokeTest, ImportOfARevokedExportIsRefused) {
  move_away();
  const Client late = node.open(1, 0);
  EXPECT_EQ(node.import(late, exported.handle).code, Errc::kRevoked);
  node.frame(importer.connection, RevokeAck{imported.id});
  EXPECT_EQ(node.import(late, exported.handle).code, Errc::kRevoked);
}

TEST_F(BrokerRevokeTest, NextGenerationMayFollowQuiescenceOnly) {
  move_away();
  node.frame(exporter.connection, ExportRequest{exported.id, 2, 3, 4, 4096, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kFailedPrecondition);
  node.frame(importer.connection, RevokeAck{imported.id});
  node.frame(exporter.connection, ExportRequest{exported.id, 3, 3, 4, 4096, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kStale);
  node.frame(exporter.connection, ExportRequest{exported.id, 2, 3, 4, 4096, 0}, 2);
  ASSERT_EQ(node.reply().code, Errc::kOk);
  const Handle anew = node.reply().handle;
  EXPECT_NE(anew, exported.handle);
  const Client beside = node.open(1, 0);
  EXPECT_EQ(node.import(beside, exported.handle).code, Errc::kStale);
  EXPECT_EQ(node.import(beside, anew).code, Errc::kOk);
  EXPECT_EQ(node.import(importer, anew).code, Errc::kPermissionDenied);  // still another partition
}

TEST_F(BrokerRevokeTest, SilentImporterIsKilledAtTheTimeOut) {
  move_away();
  node.pass(milliseconds(99));
  EXPECT_TRUE(node.all<KillProcess>().empty());
  node.pass(milliseconds(1));
  ASSERT_EQ(node.all<KillProcess>().size(), 1U);
  EXPECT_EQ(node.all<KillProcess>()[0].session, importer.session);
  node.step(ProcessExited{importer.session});
  EXPECT_EQ(quiescent().killed, 1U);
  EXPECT_EQ(node.broker->stats().importers_killed, 1U);
}

TEST_F(BrokerRevokeTest, ImporterThatCannotBeKilledCountsAsSilent) {
  move_away();
  node.pass(milliseconds(200));
  EXPECT_EQ(quiescent().silent, 1U);
  node.frame(importer.connection, RevokeAck{imported.id});  // too late, and harmless
  EXPECT_TRUE(node.effects.empty());
}

TEST_F(BrokerRevokeWithoutKillTest, NobodyIsKilledWhereThatIsForbidden) {
  move_away();
  node.pass(milliseconds(100));
  EXPECT_TRUE(node.all<KillProcess>().empty());
  EXPECT_EQ(quiescent().silent, 1U);
  EXPECT_EQ(node.broker->size().sessions, 2U);
}

TEST_F(BrokerRevokeTest, MovingBothGpusTogetherRevokesNothing) {
  node.step(FabricChanged{{gpu_of(0, 100, 9), gpu_of(1, 101, 9)}});
  EXPECT_TRUE(node.effects.empty());
}

TEST_F(BrokerRevokeTest, ImportersGpuThatLeavesRevokesForAllImporters) {
  const Client beside = node.open(1, 0);
  const Reply second = node.import(beside, exported.handle, 8, 9);
  node.step(FabricChanged{{gpu_of(0, 100, 1), gpu_of(1, 101, 2)}});
  EXPECT_EQ(node.events(Event::Kind::kRevokeImport).size(), 2U);
  node.frame(importer.connection, RevokeAck{imported.id});
  EXPECT_TRUE(node.events(Event::Kind::kExportQuiescent).empty());
  node.frame(beside.connection, RevokeAck{second.id});
  EXPECT_EQ(quiescent().acknowledged, 2U);
}

TEST_F(BrokerRevokeTest, DetachedOrVanishedGpuRevokes) {
  node.step(FabricChanged{{gpu_of(0, 100, 1)}});
  EXPECT_EQ(node.events(Event::Kind::kRevokeImport).size(), 1U);
}

TEST_F(BrokerRevokeTest, DeathDuringRevocationCountsAsAcknowledged) {
  move_away();
  node.step(ConnectionClosed{importer.connection});
  EXPECT_EQ(quiescent().acknowledged, 1U);
  EXPECT_TRUE(node.events(Event::Kind::kImporterLost).empty());
}

TEST_F(BrokerRevokeTest, AcknowledgementOfAnotherSessionsImportIsIgnored) {
  move_away();
  const Client other = node.open(1, 0);
  node.frame(other.connection, RevokeAck{imported.id});
  EXPECT_TRUE(node.effects.empty());
}

TEST_F(BrokerRevokeTest, ReleasedChannelEndsItsSessionsOnceAllHaveUnmapped) {
  node.step(ChannelClosed{1});
  EXPECT_EQ(node.events(Event::Kind::kRevokeImport).size(), 1U);
  EXPECT_FALSE(node.closed(exporter.connection));
  EXPECT_EQ(node.export_memory(exporter).code, Errc::kRevoked);
  node.frame(importer.connection, RevokeAck{imported.id});
  EXPECT_EQ(node.events(Event::Kind::kChannelReleased).size(),
            2U);  // no lost daemon to its clients
  EXPECT_LT(node.position<SendFrame>(), node.position<CloseConnection>());
  EXPECT_TRUE(node.closed(exporter.connection));
  EXPECT_TRUE(node.closed(importer.connection));
  EXPECT_EQ(node.held(), 0U);
  const ConnectionId id = node.connect();
  node.frame(id, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kFailedPrecondition);
}

TEST_F(BrokerRevokeTest, ReleasedChannelGrantedAnewKeepsTheFormerWorkloadOut) {
  node.step(ChannelClosed{1});
  node.step(ChannelOpened{1, {}, 2000});
  const ConnectionId early = node.connect(1, 2000);
  node.frame(early, Open{0, {}, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kUnavailable);
  node.pass(milliseconds(200));
  EXPECT_TRUE(node.closed(exporter.connection));
  const Client next = node.open(1, 0, 2000);
  EXPECT_EQ(node.import(next, exported.handle).code, Errc::kNotFound);
}

TEST_F(BrokerRevokeTest, GrantToAnotherUserEndsTheFormerUsersSessions) {
  node.step(ChannelOpened{1, {}, 2000});
  node.frame(importer.connection, RevokeAck{imported.id});
  EXPECT_EQ(node.broker->size().sessions, 0U);
  node.open(1, 0, 2000);
}

TEST_F(BrokerRevokeTest, SameGrantAgainChangesNothing) {
  node.step(ChannelOpened{1, {}, kAnyUser});
  EXPECT_TRUE(node.effects.empty());
}

TEST_F(BrokerRevokeTest, RevocationSurvivesARestart) {
  move_away();
  BrokerMemory memory;
  memory.next_id = 1025;
  memory.sessions.push_back({exporter.session, 1, 1000, 100, 900});
  memory.sessions.push_back({importer.session, 1, 1000, 101, 901});
  Node next(Node::config(), memory, node.now);
  next.next_fd = 2000;
  next.step(FabricChanged{{gpu_of(0, 100, 2), gpu_of(1, 101, 1)}});
  next.step(ChannelOpened{1, {}, kAnyUser});
  const ConnectionId e = next.connect();
  next.frame(e, Open{exporter.session, exporter.token, 0, 0}, 2);
  next.frame(e, ExportRequest{exported.id, 1, 3, 4, 4096, 1}, 2);
  EXPECT_EQ(next.reply().code, Errc::kOk);
  EXPECT_TRUE(
      next.events(Event::Kind::kExportQuiescent).empty());  // who has it mapped is not known yet
  const ConnectionId i = next.connect();
  next.frame(i, Open{importer.session, importer.token, 0, 0}, 2);
  next.frame(i, ImportRequest{exported.handle, imported.id, 5, 6});
  EXPECT_EQ(next.events(Event::Kind::kRevokeImport).size(), 1U);
  next.frame(i, RevokeAck{imported.id});
  EXPECT_TRUE(next.events(Event::Kind::kExportQuiescent).empty());  // may name more
  next.pass(seconds(30));
  const auto events = next.events(Event::Kind::kExportQuiescent);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].acknowledged, 1U);
}

}  // namespace
}  // namespace imex::domain
