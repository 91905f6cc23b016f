// Memory that is withdrawn, from a session that plays along and from one that does not.
#include "session_test_kit.hpp"

namespace imex::domain::client {
namespace {

using namespace session_kit;  // NOLINT: the words of these tests

TEST(SessionTest, ARevokedImportIsTakenAwayAndComesBackUnderTheNextGeneration) {
  TestDaemon daemon;
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  std::memset(memory.data(), 0x11, memory.size());
  Export exported = export_from(exporter, memory, {.rank = 2});
  const Handle former = exported.handle();
  std::optional<Import> imported = import_to(importer, former, {.rank = 3});
  EXPECT_EQ(exporter.re_export(exported).error().code, Errc::kFailedPrecondition);
  daemon.move_gpu(1, 2);

  const auto revoked = await_event(importer, Kind::kImportRevoked);
  ASSERT_TRUE(revoked);
  EXPECT_EQ(revoked->id, imported->id());
  EXPECT_EQ(revoked->rank, 2U);
  EXPECT_EQ(revoked->reason, Errc::kRevoked);
  EXPECT_EQ(imported->begin_operation().error().code, Errc::kRevoked);
  EXPECT_EQ(importer.default_scope().error()->code, Errc::kRevoked);
  EXPECT_TRUE(await_event(exporter, Kind::kExportRevoked));
  const auto quiescent = await_event(exporter, Kind::kExportQuiescent);
  ASSERT_TRUE(quiescent);
  EXPECT_EQ(quiescent->silent_importers, 0U);

  std::byte* const address = memory.data();
  ASSERT_TRUE(exporter.re_export(exported));
  EXPECT_EQ(exported.generation(), 2U);
  EXPECT_EQ(memory.data(), address);
  EXPECT_EQ(memory.data()[kBytes - 1], std::byte{0x11});
  daemon.move_gpu(1, 1);
  EXPECT_EQ(code_of(importer.import_memory(former)), Errc::kStale);
  Import again = import_to(importer, exported.handle());
  EXPECT_EQ(again.generation(), 2U);
  memory.data()[0] = std::byte{0x12};
  EXPECT_EQ(again.data()[0], std::byte{0x12});
}

TEST(SessionTest, AnAllocationThatMovedIsExportedAnewUnderItsGeneration) {
  TestDaemon daemon;
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export first = export_from(exporter, memory), second = export_from(exporter, memory);
  Import imported = import_to(importer, first.handle());
  Import other = import_to(importer, second.handle());
  daemon.move_gpu(1, 2);
  for (int i = 0; i != 2; ++i) ASSERT_TRUE(await_event(exporter, Kind::kExportQuiescent));
  daemon.move_gpu(1, 1);
  ASSERT_TRUE(exporter.re_export(first));
  ASSERT_TRUE(exporter.re_export(second));  // the pages have moved already
  EXPECT_EQ(second.generation(), 2U);
  Export third = export_from(exporter, memory);
  EXPECT_EQ(third.generation(), 2U);
  memory.data()[0] = std::byte{8};
  for (const Export* each : {&first, &second, &third}) {
    EXPECT_EQ(import_to(importer, each->handle()).data()[0], std::byte{8});
  }
}

TEST(SessionTest, AnAllocationStaysInPlaceWhileAnotherExportOfItIsLive) {
  TestDaemon daemon;
  Session first = open_session(daemon, 0), second = open_session(daemon, 0);
  Session leaves = open_session(daemon, 1), stays = open_session(daemon, 0);
  Allocation memory = allocate();
  Export revoked = export_from(first, memory);
  Import lost = import_to(leaves, revoked.handle());
  for (Session* owner : {&second, &first}) {  // of another session, and of the same one
    std::optional<Export> live = export_from(*owner, memory);
    Import kept = import_to(stays, live->handle());
    daemon.move_gpu(1, 2);
    ASSERT_TRUE(await_event(first, Kind::kExportQuiescent));
    const auto refused = first.re_export(revoked);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kFailedPrecondition);
    EXPECT_THAT(refused.error().hint, HasSubstr("end the other exports"));
    memory.data()[0] = std::byte{31};  // nobody writes to pages that others do not see
    EXPECT_EQ(kept.data()[0], std::byte{31});
    EXPECT_EQ(import_to(stays, live->handle()).data()[0], std::byte{31});

    const std::uint32_t former = revoked.generation();
    const Handle ended = live->handle();
    live.reset();
    ASSERT_TRUE(first.re_export(revoked));
    EXPECT_EQ(revoked.generation(), former + 1);
    EXPECT_EQ(code_of(stays.import_memory(ended)), Errc::kNotFound);
    daemon.move_gpu(1, 1);
    lost = import_to(leaves, revoked.handle());
    memory.data()[0] = std::byte{32};
    EXPECT_EQ(lost.data()[0], std::byte{32});
    EXPECT_EQ(kept.data()[0], std::byte{31});  // of an export that ended: a private copy by now
  }
}

TEST(SessionTest, ARevocationWaitsForTheOperationThatRuns) {
  TestDaemon daemon;
  auto [exporter, importer, memory, exported, imported] = share_memory(daemon);
  {
    const auto operation = imported.begin_operation();
    ASSERT_TRUE(operation);
    daemon.move_gpu(1, 2);
    while (imported.begin_operation())
      std::this_thread::yield();                  // the control thread has closed it
    EXPECT_EQ(imported.data()[0], std::byte{0});  // and the pages are still there
  }
  EXPECT_TRUE(await_event(importer, Kind::kImportRevoked));
  EXPECT_EQ(await_event(exporter, Kind::kExportQuiescent)->silent_importers, 0U);
}

TEST(SessionTest, AnOperationThatDoesNotEndLosesThePagesInTime) {
  TestDaemon daemon;
  auto [exporter, importer, memory, exported, imported] = share_memory(daemon);
  const auto operation = imported.begin_operation();
  ASSERT_TRUE(operation);
  daemon.move_gpu(1, 2);
  EXPECT_TRUE(await_event(importer, Kind::kImportRevoked));
  EXPECT_EQ(await_event(exporter, Kind::kExportQuiescent)->silent_importers, 0U);
  EXPECT_EQ(daemon.stats().importers_silent, 0U);
}

TEST(SessionTest, ManyImportsAreRevokedWithinOneGrace) {
  TestDaemon daemon;
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate(4096);
  std::vector<Export> exports;
  std::vector<Import> imports;
  std::vector<Import::Operation> operations;
  for (int i = 0; i != 8; ++i) {
    exports.push_back(export_from(exporter, memory));
    imports.push_back(import_to(importer, exports.back().handle()));
    operations.push_back(imports.back().begin_operation().value());
  }
  daemon.move_gpu(1, 2);
  for (int i = 0; i != 8; ++i) ASSERT_TRUE(await_event(exporter, Kind::kExportQuiescent));
  EXPECT_EQ(daemon.stats().importers_silent, 0U);  // eight graces in a row would be 400 ms
}

TEST(SessionDeathTest, AccessToRevokedMemoryFaults) {
  TestDaemon daemon;
  auto [exporter, importer, memory, exported, imported] = share_memory(daemon);
  daemon.move_gpu(1, 2);
  ASSERT_TRUE(await_event(importer, Kind::kImportRevoked));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's report of it is not wanted
    const volatile std::byte* data = imported.data();
    ::_exit(data[0] == std::byte{0} ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

// Goal: an importer that ignores everything gets nothing that is written after the revocation.
TEST(SessionTest, AHostileImporterSeesNothingWrittenAfterwards) {
  TestDaemon daemon;  // may not kill it
  Session exporter = open_session(daemon, 0);
  Allocation memory = allocate();
  std::memset(memory.data(), 21, memory.size());
  Export exported = export_from(exporter, memory);
  // The hostile session takes GPU 0 as well ("any"): revoke by moving GPU 1, where a partner is.
  Peer hostile({kHostile, daemon.channel(0), exported.handle().to_hex()});
  ASSERT_EQ(hostile.line(), "21");
  Session partner = open_session(daemon, 1);
  Import imported = import_to(partner, exported.handle());
  daemon.move_gpu(1, 2);
  const auto quiescent = await_event(exporter, Kind::kExportQuiescent);
  ASSERT_TRUE(quiescent);
  EXPECT_EQ(quiescent->silent_importers, 1U);
  ASSERT_TRUE(exporter.re_export(exported));
  std::memset(memory.data(), 99, memory.size());
  hostile.tell("");
  EXPECT_EQ(hostile.line(), "21");
  EXPECT_EQ(hostile.finish(), 0);
}

TEST(SessionTest, AHostileImporterIsKilledWhereThatIsPermitted) {
  TestDaemon daemon({.kill_silent_importers = true});
  Session exporter = open_session(daemon, 0), partner = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory);
  Peer hostile({kHostile, daemon.channel(0), exported.handle().to_hex()});
  ASSERT_EQ(hostile.line(), "0");
  Import imported = import_to(partner, exported.handle());
  daemon.move_gpu(1, 2);
  const auto quiescent = await_event(exporter, Kind::kExportQuiescent);
  ASSERT_TRUE(quiescent);
  EXPECT_EQ(quiescent->silent_importers, 0U);
  EXPECT_EQ(hostile.finish(), 128 + SIGKILL);
}

}  // namespace
}  // namespace imex::domain::client
