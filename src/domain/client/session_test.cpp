// Sessions against the shipped rules over real sockets: the broker runs in a thread of the test,
// peers that must die are processes of their own.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <imex/session.hpp>
#include <imex/signal.hpp>

#include "os/poll.hpp"
#include "testing/test_daemon.hpp"

namespace imex::domain::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Kind = SessionEvent::Kind;

constexpr std::size_t kBytes = 64 * 1024;
const std::string kPeer = IMEX_TEST_PEER;
const std::string kHostile = IMEX_TEST_HOSTILE;

Session open_session(TestDaemon& daemon, std::uint32_t gpu = 0, std::uint32_t channel = 0,
                     std::chrono::milliseconds timeout = 5s) {
  auto session =
      Session::open({.channel = daemon.channel(channel), .gpu_index = gpu, .timeout = timeout});
  EXPECT_TRUE(session) << session.error().to_string();
  return std::move(session).value();
}

Allocation allocate(std::size_t bytes = kBytes) {
  auto memory = Allocation::create(bytes, {.pages = Pages::kSmall});
  EXPECT_TRUE(memory) << memory.error().to_string();
  return std::move(memory).value();
}

Export export_from(Session& session, Allocation& memory, const ExportOptions& options = {}) {
  auto exported = session.export_memory(memory, options);
  EXPECT_TRUE(exported) << exported.error().to_string();
  return std::move(exported).value();
}

Import import_to(Session& session, const Handle& handle, const ImportOptions& options = {}) {
  auto imported = session.import_memory(handle, options);
  EXPECT_TRUE(imported) << imported.error().to_string();
  return std::move(imported).value();
}

Errc code_of(const Result<Import>& result) { return result ? Errc::kOk : result.error().code; }
Errc code_of(const Result<Export>& result) { return result ? Errc::kOk : result.error().code; }
Errc code_of(const Result<Session>& result) { return result ? Errc::kOk : result.error().code; }

/// The next event of that kind; others before it are dropped. Nothing after ten seconds.
std::optional<SessionEvent> await_event(Session& session, Kind kind) {
  const auto until = Clock::now() + 10s;
  while (Clock::now() < until) {
    while (auto event = session.next_event()) {
      if (event->kind == kind) return event;
    }
    std::array items{os::PollItem{.fd = session.event_fd()}};
    if (!os::poll_any(items, until)) break;
  }
  return std::nullopt;
}

/// The next event of that kind among those that are there.
std::optional<SessionEvent> taken_event(Session& session, Kind kind) {
  while (auto event = session.next_event()) {
    if (event->kind == kind) return event;
  }
  return std::nullopt;
}

SignalCell& cell_of(std::byte* data) { return *reinterpret_cast<SignalCell*>(data); }

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

// ---- losing a peer ----

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

// ---- revocation ----

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

TEST(SessionTest, ARevocationWaitsForTheOperationThatRuns) {
  TestDaemon daemon;
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory);
  Import imported = import_to(importer, exported.handle());
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
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory);
  Import imported = import_to(importer, exported.handle());
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
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory);
  Import imported = import_to(importer, exported.handle());
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

// ---- the daemon goes away ----

TEST(SessionTest, ADaemonThatComesBackFindsMappingsAndHandlesAsTheyWere) {
  // Quiescence after a restart waits for importers that may still come back: for a lease.
  TestDaemon daemon({.lease = 1'500ms});
  Session exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  Allocation memory = allocate();
  Export exported = export_from(exporter, memory, {.rank = 4});
  Import imported = import_to(importer, exported.handle());
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

TEST(SessionTest, EndingASessionWhileTheDaemonIsAwayOrHangsDoesNotBlock) {
  TestDaemon daemon;
  for (const bool hangs : {true, false}) {
    std::optional<Session> session = open_session(daemon, 0, 0, 200ms);
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
    EXPECT_LT(Clock::now() - start, 2s);  // twenty timeouts would be 4 s
  }
}

}  // namespace
}  // namespace imex::domain::client
