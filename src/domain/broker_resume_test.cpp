// What a daemon that resumes owes to the sessions of its life before.
#include "broker_fixture.hpp"

namespace imex::domain {
namespace {

class BrokerResumeTest : public BrokerTest {
 protected:
  /// The daemon dies and comes back: same key, what the journal kept.
  Node restart(const std::vector<Client>& clients, Nanos after = seconds(1)) {
    BrokerMemory memory;
    memory.next_id = 1025;
    FdToken fd = 1000;
    for (const Client& client : clients) memory.sessions.push_back(remembered(client, fd++));
    Node next(Node::config(), memory, node.now + after);
    next.next_fd = 2000;
    next.next_connection = 500;
    prepare(next);
    return next;
  }
  static Client resume(Node& n, const Client& former) {
    Client client = former;
    client.connection = n.connect();
    n.frame(client.connection, Open{former.session, former.token, 0, 0}, 2);
    EXPECT_EQ(n.reply().code, Errc::kOk) << view_error_text(n.reply().text);
    EXPECT_EQ(n.reply().id, former.session);
    return client;
  }
  /// A session that exported as rank 3 in its scope 4, one that imported that in its scope 5, and
  /// the daemon after a restart, to which neither has come back.
  struct Restarted {
    Client exporter, importer;
    Reply exported, imported;
    Node next;

    /// The importer comes back and says what it has mapped.
    void resume_importer() {
      const Client back = resume(next, importer);
      next.frame(back.connection, ImportRequest{exported.handle, imported.id, 1, 5});
    }
  };
  Restarted restart_with_import() {
    const Client exporter = node.open();
    const Client importer = node.open();
    const Reply exported = node.export_memory(exporter, 3, 4);
    const Reply imported = node.import(importer, exported.handle, 1, 5);
    return {exporter, importer, exported, imported, restart({exporter, importer})};
  }
};

TEST_F(BrokerResumeTest, Section18_08_HandlesStayValidOverARestart) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  const Client exporter2 = resume(next, exporter);
  next.frame(exporter2.connection, ExportRequest{exported.id, 1, 3, 4, 4096, 0}, 2);
  EXPECT_EQ(next.reply().handle, exported.handle);
  restarted.resume_importer();
  EXPECT_EQ(next.reply().code, Errc::kOk);
  EXPECT_TRUE(next.all<SendFrame>().back().fds.empty());
  next.step(ConnectionClosed{exporter2.connection});
  EXPECT_TRUE(next.tripped(importer.session, 5, Errc::kPeerLost, 3));
}

TEST_F(BrokerResumeTest, ImporterMayComeBackBeforeItsExporter) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  restarted.resume_importer();
  EXPECT_EQ(next.reply().code, Errc::kOk);
  next.pass(seconds(40));
  EXPECT_EQ(next.events(Event::Kind::kExporterLost).size(), 1U);
  EXPECT_TRUE(next.tripped(importer.session, 5, Errc::kPeerLost, kNoRank));
}

TEST_F(BrokerResumeTest, ImporterIsToldAtOnceWhenItsExportersProcessIsGone) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  restarted.resume_importer();
  next.step(ProcessExited{exporter.session});
  EXPECT_EQ(next.events(Event::Kind::kExporterLost).size(), 1U);
}

TEST_F(BrokerResumeTest, NewImportWaitsForAnExporterThatIsComingBack) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter);
  Node next = restart({exporter});
  const Client importer = next.open();
  next.frame(importer.connection, ImportRequest{exported.handle, 0, 1, 0});
  EXPECT_FALSE(next.replied());
  const Client exporter2 = resume(next, exporter);
  next.frame(exporter2.connection, ExportRequest{exported.id, 1, 0, kNoScope, 4096, 0}, 2);
  const auto replies = next.sent<Reply>();
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[1].first, importer.connection);
  EXPECT_EQ(replies[1].second.code, Errc::kOk);
}

TEST_F(BrokerResumeTest, NewImportOfAnAwaitedExporterEndsUnavailableInTime) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter);
  Node next = restart({exporter});
  const Client importer = next.open();
  next.frame(importer.connection, ImportRequest{exported.handle, 0, 1, 0});
  next.pass(seconds(2));
  EXPECT_EQ(next.reply().code, Errc::kUnavailable);
}

TEST_F(BrokerResumeTest, WaitingImportsOfOneSessionAreBounded) {
  const Client exporter = node.open();
  const Reply exported = node.export_memory(exporter);
  Node next = restart({exporter});
  const Client importer = next.open();
  for (int i = 0; i < 64; ++i) {
    next.frame(importer.connection, ImportRequest{exported.handle, 0, 1, 0});
    EXPECT_FALSE(next.replied());
  }
  next.frame(importer.connection, ImportRequest{exported.handle, 0, 1, 0});
  EXPECT_EQ(next.reply().code, Errc::kResourceExhausted);
  next.step(ConnectionClosed{importer.connection});
  EXPECT_EQ(next.broker->size().pending_imports, 0U);
}

TEST_F(BrokerResumeTest, WrongTokenDoesNotResume) {
  const Client client = node.open();
  Node next = restart({client});
  for (std::size_t byte = 0; byte < 16; ++byte) {
    Secret wrong = client.token;
    wrong[byte] ^= std::byte{0x80};
    const ConnectionId id = next.connect();
    next.frame(id, Open{client.session, wrong, 0, 0}, 2);
    EXPECT_EQ(next.reply().code, Errc::kPermissionDenied);
    EXPECT_TRUE(next.closed(id));
  }
}

TEST_F(BrokerResumeTest, SessionResumesOnlyOnItsChannelAndForItsUser) {
  const Client client = node.open();
  Node next = restart({client});
  const ConnectionId channel = next.connect(2);
  next.frame(channel, Open{client.session, client.token, 0, 0}, 2);
  EXPECT_EQ(next.reply().code, Errc::kPermissionDenied);
  const ConnectionId user = next.connect(1, 1001);
  next.frame(user, Open{client.session, client.token, 0, 0}, 2);
  EXPECT_EQ(next.reply().code, Errc::kPermissionDenied);
}

TEST_F(BrokerResumeTest, Section18_08_SessionThatDoesNotComeBackEndsWithTheLease) {
  const Client client = node.open();
  Node next = restart({client});
  next.pass(seconds(30));
  EXPECT_EQ(next.all<JournalSessionEnded>().size(), 1U);
  EXPECT_EQ(next.broker->stats().sessions_lost, 1U);
  const ConnectionId id = next.connect();
  next.frame(id, Open{client.session, client.token, 0, 0}, 2);
  EXPECT_EQ(next.reply().code, Errc::kNotFound);
  EXPECT_EQ(next.held(), 0U);
}

TEST_F(BrokerResumeTest, ProcessThatDiedMeanwhileEndsInTheFirstStep) {
  BrokerMemory memory;
  memory.sessions.push_back({5, 1, 1000, 100, 0});
  Node next(Node::config(), memory);
  next.step(ChannelOpened{1, {}, kAnyUser});
  ASSERT_EQ(next.all<JournalSessionEnded>().size(), 1U);
  EXPECT_EQ(next.all<JournalSessionEnded>()[0].session, 5U);
}

TEST_F(BrokerResumeTest, AwaitedProcessesAreWatchedFromTheFirstStep) {
  BrokerMemory memory;
  memory.sessions.push_back({5, 1, 1000, 100, 900});
  Node next(Node::config(), memory);
  next.step(ChannelOpened{1, {}, kAnyUser});
  ASSERT_EQ(next.all<AdoptSession>().size(), 1U);
  EXPECT_EQ(next.all<AdoptSession>()[0].pidfd, 900U);
  next.step(ProcessExited{5});
  EXPECT_EQ(next.held(), 0U);
}

TEST_F(BrokerResumeTest, ResumeReplacesTheOldConnection) {
  const Client client = node.open();
  const ConnectionId id = node.connect();
  node.frame(id, Open{client.session, client.token, 0, 0}, 2);
  EXPECT_EQ(node.reply().code, Errc::kOk);
  EXPECT_TRUE(node.closed(client.connection));
  EXPECT_EQ(node.held(), 2U);
  node.step(ConnectionClosed{client.connection});
  EXPECT_EQ(node.broker->size().sessions, 1U);
}

TEST_F(BrokerResumeTest, ExportIdOfAnotherSessionCannotBeTakenOverAfterARestart) {
  const Client victim = node.open();
  const Client thief = node.open();
  const Reply exported = node.export_memory(victim);
  Node next = restart({victim, thief});
  const Client thief2 = resume(next, thief);
  next.frame(thief2.connection, ExportRequest{exported.id, 1, 0, kNoScope, 4096, 0}, 2);
  EXPECT_EQ(next.reply().code, Errc::kPermissionDenied);
  next.frame(thief2.connection, ImportRequest{exported.handle, exported.id, 0, 0});
  EXPECT_EQ(next.reply().code, Errc::kPermissionDenied);
}

TEST_F(BrokerResumeTest, ImportThatWasNeverGrantedCannotBeRegisteredAgain) {
  const Client exporter = node.open();
  const Client importer = node.open();
  const Reply exported = node.export_memory(exporter);
  const Reply imported = node.import(importer, exported.handle);
  node.frame(importer.connection, UnimportRequest{imported.id});
  node.frame(importer.connection, ImportRequest{exported.handle, imported.id, 0, 0});
  EXPECT_EQ(node.reply().code, Errc::kNotFound);
}

TEST_F(BrokerResumeTest, NewIdsNeverRepeatThoseOfTheLifeBefore) {
  const Client client = node.open();
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 200; ++i) ids.insert(Seal::number_of(node.export_memory(client).id));
  Node next = restart({client});
  const Client client2 = resume(next, client);
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(ids.insert(Seal::number_of(next.export_memory(client2).id)).second);
  }
}

TEST_F(BrokerResumeTest, ExportThatItsSessionDoesNotRegisterAgainEndsWithTheLease) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  resume(next, exporter);  // comes back, and without what it had exported
  restarted.resume_importer();
  ASSERT_EQ(next.reply().code, Errc::kOk);
  next.pass(seconds(31));
  ASSERT_EQ(next.events(Event::Kind::kExporterLost).size(), 1U);
  EXPECT_EQ(next.events(Event::Kind::kExporterLost)[0].id, imported.id);
}

/// The importer was told of an end in order: an event without a cause, and no scope tripped.
void expect_end_in_order(const Node& next, const Reply& imported) {
  ASSERT_EQ(next.events(Event::Kind::kExporterLost).size(), 1U);
  EXPECT_EQ(next.events(Event::Kind::kExporterLost)[0].id, imported.id);
  EXPECT_EQ(next.events(Event::Kind::kExporterLost)[0].reason, Errc::kOk);
  EXPECT_TRUE(next.all<SetAbort>().empty());
}

TEST_F(BrokerResumeTest, ExportThatEndedInOrderMeanwhileIsToldOnceItsSessionSaysSo) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  restarted.resume_importer();
  const Client back = resume(next, exporter);
  next.frame(back.connection, UnexportRequest{exported.id});
  EXPECT_EQ(next.reply().code, Errc::kOk);
  expect_end_in_order(next, imported);
  next.pass(seconds(31));
  EXPECT_TRUE(next.events(Event::Kind::kExporterLost).empty()) << "told twice";
}

TEST_F(BrokerResumeTest, ImporterThatComesBackAfterAnEndInOrderIsToldOfThatEnd) {
  for (const bool registered : {false, true}) {
    for (const bool leaves : {false, true}) {
      auto restarted = restart_with_import();
      auto& [exporter, importer, exported, imported, next] = restarted;
      const Client back = resume(next, exporter);
      if (registered) {
        next.frame(back.connection, ExportRequest{exported.id, 1, 3, 4, 4096, 0}, 2);
        EXPECT_EQ(next.reply().code, Errc::kOk);
      }
      if (leaves) {
        next.frame(back.connection, Close{});
      } else {
        next.frame(back.connection, UnexportRequest{exported.id});
      }
      restarted.resume_importer();
      EXPECT_EQ(next.reply().code, Errc::kOk);
      expect_end_in_order(next, imported);
    }
  }
}

TEST_F(BrokerResumeTest, ImporterThatWaitsIsToldWhenTheSessionLeavesInOrder) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  restarted.resume_importer();
  next.frame(resume(next, exporter).connection, Close{});
  expect_end_in_order(next, imported);
}

TEST_F(BrokerResumeTest, NewImportOfAnExportThatEndedInOrderDoesNotWait) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  const Client back = resume(next, exporter);
  next.frame(back.connection, UnexportRequest{exported.id});
  EXPECT_EQ(next.import(resume(next, importer), exported.handle).code, Errc::kNotFound);
}

TEST_F(BrokerResumeTest, NobodyEndsTheFormerExportOfAnother) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  const Client back = resume(next, importer);
  next.frame(back.connection, UnexportRequest{exported.id});
  EXPECT_EQ(next.reply().code, Errc::kNotFound);
  next.frame(back.connection, ImportRequest{exported.handle, imported.id, 1, 5});
  EXPECT_EQ(next.reply().code, Errc::kOk);
  EXPECT_TRUE(next.events(Event::Kind::kExporterLost).empty());
}

TEST_F(BrokerResumeTest, AnExporterThatDiesAfterItCameBackIsALoss) {
  auto restarted = restart_with_import();
  auto& [exporter, importer, exported, imported, next] = restarted;
  next.step(ConnectionClosed{resume(next, exporter).connection});
  const Client back = resume(next, importer);
  next.frame(back.connection, ImportRequest{exported.handle, imported.id, 1, 5});
  EXPECT_EQ(next.reply().code, Errc::kNotFound);  // the client takes that for a loss
}

/// An exporter and an importer whose daemon restarted while the GPUs parted.
class BrokerResumeRevokedTest : public BrokerResumeTest {
 protected:
  BrokerResumeRevokedTest()
      : exporter(node.open(1, 0)),
        importer(node.open(1, 0)),
        exported(node.export_memory(exporter)) {
    imported = node.import(importer, exported.handle);
  }
  /// Back, with the export told as revoked by the life before.
  Client resume_exporter(Node& next) {
    const Client back = resume(next, exporter);
    next.frame(back.connection, ExportRequest{exported.id, 1, 3, kNoScope, 4096, 1}, 2);
    EXPECT_EQ(next.reply().code, Errc::kOk);
    say_settled(next, back);
    return back;
  }
  static void say_settled(Node& next, const Client& back) {
    next.frame(back.connection, RevokeAck{0});
  }
  static std::size_t quiescent(const Node& next) {
    return next.events(Event::Kind::kExportQuiescent).size();
  }
  Client exporter, importer;
  Reply exported, imported;
};

TEST_F(BrokerResumeRevokedTest, IsQuiescentOnceEverySessionSaidWhatItHasAndGaveItUp) {
  Node next = restart({exporter, importer});
  const Client exporter2 = resume_exporter(next);
  EXPECT_EQ(quiescent(next), 0U);
  const Client back = resume(next, importer);
  next.frame(back.connection, ImportRequest{exported.handle, imported.id, 1, 5});
  EXPECT_EQ(next.events(Event::Kind::kRevokeImport).size(), 1U);
  say_settled(next, back);
  EXPECT_EQ(quiescent(next), 0U);
  next.frame(back.connection, RevokeAck{imported.id});
  ASSERT_EQ(quiescent(next), 1U);
  EXPECT_EQ(next.events(Event::Kind::kExportQuiescent)[0].acknowledged, 1U);
  next.frame(exporter2.connection, ExportRequest{exported.id, 2, 3, kNoScope, 4096, 0}, 2);
  EXPECT_EQ(next.reply().code, Errc::kOk);
}

TEST_F(BrokerResumeRevokedTest, IsQuiescentAtOnceWhenTheImporterHadAcknowledgedBefore) {
  Node next = restart({exporter, importer});
  resume_exporter(next);
  say_settled(next, resume(next, importer));  // came back with nothing mapped
  EXPECT_EQ(quiescent(next), 1U);
}

TEST_F(BrokerResumeRevokedTest, IsQuiescentAtOnceWhenTheImportersProcessIsGone) {
  Node next = restart({exporter, importer});
  resume_exporter(next);
  next.step(ProcessExited{importer.session});
  EXPECT_EQ(quiescent(next), 1U);
}

TEST_F(BrokerResumeRevokedTest, WaitsTheWindowForOneThatDoesNotComeBack) {
  Node next = restart({exporter, importer});
  resume_exporter(next);
  next.pass(seconds(29));
  EXPECT_EQ(quiescent(next), 0U);
  next.pass(seconds(1));
  EXPECT_EQ(quiescent(next), 1U);
}

TEST_F(BrokerResumeRevokedTest, DoesNotWaitForSessionsOfOtherChannels) {
  const Client stranger = node.open(2, 0);
  Node next = restart({exporter, importer, stranger});
  resume_exporter(next);
  say_settled(next, resume(next, importer));
  EXPECT_EQ(quiescent(next), 1U);
}

TEST_F(BrokerResumeRevokedTest, ASecondConnectionCannotSettleAheadOfTheRegistrations) {
  Node next = restart({exporter, importer});
  resume_exporter(next);
  const Client back = resume(next, importer);
  const ConnectionId events = next.connect();
  next.frame(events, AttachEvents{importer.session, importer.token});
  next.frame(events, RevokeAck{0});
  EXPECT_EQ(quiescent(next), 0U);
  say_settled(next, back);
  EXPECT_EQ(quiescent(next), 1U);
}

}  // namespace
}  // namespace imex::domain
