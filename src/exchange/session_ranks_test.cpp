// Ranks that found each other through the channels of a node daemon.

#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <imex/communicator.hpp>

#include "testing/process_ranks.hpp"
#include "testing/ranks.hpp"
#include "testing/test_daemon.hpp"

namespace imex::exchange {
namespace {

using domain::client::TestDaemon;
using testing_kit::Board;
using testing_kit::failed;
using testing_kit::ProcessRanks;
using testing_kit::reaches;
using testing_kit::Verdict;

/// Rank r acts for GPU r of the daemon whose channel 0 the board names.
Result<Session> open_session(std::uint32_t rank, const Board& board) {
  return Session::open({.channel = board.text, .gpu_index = rank});
}

enum class Levels : std::uint8_t { kOne, kTwo };

/// Of kTwo: ranks 0 and 1 are near each other, all others are alone.
CommunicatorOptions options_for(std::uint32_t rank, Levels levels) {
  CommunicatorOptions options;
  if (levels == Levels::kOne) return options;
  options.determinism = Determinism::kConsistent;
  options.algorithm = Algorithm::kTwoLevel;
  options.locality = rank == 1 ? 0 : rank;
  return options;
}

/// A body that begins with a communicator of `ranks` through the daemon.
ProcessRanks::Body through_daemon(std::uint32_t ranks,
                                  std::function<int(Communicator&, Board&)> body,
                                  Levels levels = Levels::kOne) {
  return [ranks, levels, body = std::move(body)](std::uint32_t rank, Board& board) {
    const auto session = open_session(rank, board);
    if (!session) return failed(rank, "session", session.error());
    auto comm = Communicator::create(*session, board.id, rank, ranks, options_for(rank, levels));
    return comm ? body(*comm, board) : failed(rank, "create", comm.error());
  };
}

/// The place where the ranks of a test meet; its session stays open.
struct Meeting {
  Session session;
  Rendezvous rendezvous;

  static Result<Meeting> open(TestDaemon& daemon, ProcessRanks& ranks) {
    auto session = Session::open({.channel = daemon.channel(0), .gpu_index = 0});
    if (!session) return tl::unexpected(session.error());
    auto rendezvous = Rendezvous::create(*session);
    if (!rendezvous) return tl::unexpected(rendezvous.error());
    std::strncpy(ranks.board().text, daemon.channel(0).c_str(), sizeof ranks.board().text - 1);
    ranks.open(rendezvous->id());
    return Meeting{std::move(*session), std::move(*rendezvous)};
  }
};

Result<bool> sums_to(Communicator& comm, std::span<float> data) {
  std::fill(data.begin(), data.end(), static_cast<float>(comm.rank() + 1));
  const auto done =
      comm.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
  if (!done) return tl::unexpected(done.error());
  const auto n = static_cast<float>(comm.size());
  return data.front() == n * (n + 1) / 2 && data.back() == n * (n + 1) / 2;
}

int sums_of_all_kinds(Communicator& comm, Board&) {
  std::vector<float> own(50'000);
  auto bytes = comm.allocate(own.size() * sizeof(float));
  if (!bytes) return failed(comm.rank(), "allocate", bytes.error());
  const std::span shared(reinterpret_cast<float*>(bytes->data()), own.size());
  for (const std::size_t count : {1U, 400U, 5'000U, 50'000U}) {
    for (const std::span<float> data : {std::span(own).first(count), shared.first(count)}) {
      const auto right = sums_to(comm, data);
      if (!right) return failed(comm.rank(), "all_reduce", right.error());
      if (!*right) return 2;
    }
  }
  return 0;
}

TEST(SessionRanksTest, MeetThroughTheDaemonAndExchange) {
  ProcessRanks ranks(3, through_daemon(3, sums_of_all_kinds));
  TestDaemon daemon;
  const auto meeting = Meeting::open(daemon, ranks);
  ASSERT_TRUE(meeting) << meeting.error().to_string();
  for (std::uint32_t rank = 0; rank != 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(SessionRanksTest, ExchangeInTwoLevels) {
  const auto body = [](Communicator& comm, Board& board) {
    if (const int wrong = sums_of_all_kinds(comm, board); wrong != 0) return wrong;
    const auto two = static_cast<std::size_t>(Algorithm::kTwoLevel);
    return comm.counters().by_algorithm[two] == 8 ? 0 : 3;
  };
  ProcessRanks ranks(3, through_daemon(3, body, Levels::kTwo));
  TestDaemon daemon;
  const auto meeting = Meeting::open(daemon, ranks);
  ASSERT_TRUE(meeting) << meeting.error().to_string();
  for (std::uint32_t rank = 0; rank != 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

/// Exchanges until something ends it.
Error last_error(Communicator& comm, Board& board) {
  std::vector<float> data(3'000);
  board.arrived.fetch_add(1);
  for (;;) {
    const auto right = sums_to(comm, data);
    if (!right) return right.error();
  }
}

int survives_rank_one(Communicator& comm, Board& board) {
  const Error error = last_error(comm, board);
  if (error.code != Errc::kPeerLost || error.rank != 1) return failed(comm.rank(), "end", error);
  auto rest = comm.shrink(std::array<std::uint32_t, 1>{1});
  if (!rest) return failed(comm.rank(), "shrink", rest.error());
  std::vector<float> data(3'000);
  const auto right = sums_to(*rest, data);
  return right && *right ? 0 : 3;
}

TEST(SessionRanksTest, SurvivorsOfAKilledRankGoOn) {
  ProcessRanks ranks(3, through_daemon(3, survives_rank_one));
  TestDaemon daemon;
  const auto meeting = Meeting::open(daemon, ranks);
  ASSERT_TRUE(meeting) << meeting.error().to_string();
  ASSERT_TRUE(reaches([&] { return ranks.board().arrived == 3; }));
  ranks.kill(1);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

int is_told_of_revocation(Communicator& comm, Board& board) {
  const Error error = last_error(comm, board);
  // Who leaves first would be a loss for who has not been told yet.
  board.told.fetch_add(1);
  if (!reaches([&] { return board.told == comm.size(); })) return 2;
  return error.code == Errc::kRevoked ? 0 : failed(comm.rank(), "end", error);
}

// The fabric takes a GPU out of the partition in the middle of an exchange: an error, no fault.
TEST(SessionRanksTest, MemoryThatIsWithdrawnEndsTheExchange) {
  for (const Levels levels : {Levels::kOne, Levels::kTwo}) {
    const std::uint32_t count = levels == Levels::kOne ? 2 : 3;
    ProcessRanks ranks(count, through_daemon(count, is_told_of_revocation, levels));
    TestDaemon daemon;
    const auto meeting = Meeting::open(daemon, ranks);
    ASSERT_TRUE(meeting) << meeting.error().to_string();
    ASSERT_TRUE(reaches([&] { return ranks.board().arrived == count; }));
    daemon.move_gpu(1, 2);
    for (std::uint32_t rank = 0; rank != count; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
  }
}

int ends_with_any_error(std::uint32_t rank, Board& board) {
  const auto session = open_session(rank, board);
  if (!session) return failed(rank, "session", session.error());
  // Who waits for a rank that was refused learns no more than that it does not come.
  const CommunicatorOptions options{.timeout = std::chrono::seconds(1)};
  auto comm = Communicator::create(*session, board.id, rank, 2, options);
  if (comm) static_cast<void>(last_error(*comm, board));
  return 0;
}

// The same at any instant from the first meeting on.
TEST(SessionRanksTest, MemoryThatIsWithdrawnWhileRanksMeetIsNoFault) {
  for (int round = 0; round != 20; ++round) {
    ProcessRanks ranks(2, ends_with_any_error);
    TestDaemon daemon;
    const auto meeting = Meeting::open(daemon, ranks);
    ASSERT_TRUE(meeting) << meeting.error().to_string();
    const auto instant = std::chrono::steady_clock::now() + std::chrono::microseconds(300 * round);
    EXPECT_TRUE(reaches([&] { return std::chrono::steady_clock::now() >= instant; }));
    daemon.move_gpu(1, 2);
    EXPECT_EQ(ranks.wait(0), 0) << "round " << round;
    EXPECT_EQ(ranks.wait(1), 0) << "round " << round;
  }
}

int exchanges_until_told(Communicator& comm, Board& board) {
  std::vector<float> data(3'000);
  board.arrived.fetch_add(1);
  // All leave in the same round: rank 0 says in its data whether it is the last.
  for (float last = 0; last == 0;) {
    const auto right = sums_to(comm, data);
    if (!right) return failed(comm.rank(), "all_reduce", right.error());
    if (!*right) return 2;
    if (comm.rank() == 0) last = board.told.load() != 0 ? 1.0F : 0.0F;
    const auto same = comm.broadcast(&last, sizeof last, 0);
    if (!same) return failed(comm.rank(), "broadcast", same.error());
  }
  return 0;
}

// A daemon that crashes and comes back within its lease harms nobody.
TEST(SessionRanksTest, ExchangeGoesOnWhileTheDaemonIsAway) {
  ProcessRanks ranks(2, through_daemon(2, exchanges_until_told));
  TestDaemon daemon;
  const auto meeting = Meeting::open(daemon, ranks);
  ASSERT_TRUE(meeting) << meeting.error().to_string();
  ASSERT_TRUE(reaches([&] { return ranks.board().arrived == 2; }));
  daemon.kill();
  daemon.start();
  // Sessions of both ranks and of the meeting place are back.
  EXPECT_TRUE(daemon.reaches([](const auto& size) { return size.sessions == 3; }));
  ranks.board().told.store(1);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

TEST(SessionRanksTest, ThreadsOfOneProcessShareTheirMappings) {
  TestDaemon daemon;
  auto session = Session::open({.channel = daemon.channel(0), .gpu_index = 0});
  ASSERT_TRUE(session);
  auto rendezvous = Rendezvous::create(*session);
  ASSERT_TRUE(rendezvous) << rendezvous.error().to_string();
  std::array<Verdict, 2> verdicts;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank != 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = Communicator::create(*session, rendezvous->id(), rank, 2);
      if (!comm) {
        verdicts[rank] = comm.error().to_string();
        return;
      }
      std::vector<float> data(3'000);
      const auto right = sums_to(*comm, data);
      if (!right || !*right) verdicts[rank] = right ? "wrong sum" : right.error().to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(verdicts, ::testing::Each(""));
}

TEST(SessionRanksTest, IdsServeOnTheirOwnChannelOnly) {
  TestDaemon daemon;
  auto session = Session::open({.channel = daemon.channel(0), .gpu_index = 0});
  auto other = Session::open({.channel = daemon.channel(1), .gpu_index = 1});
  ASSERT_TRUE(session && other);
  // Ranks of one process share a mapping without the daemon, so another process has to try.
  auto direct = Rendezvous::create();
  ASSERT_TRUE(direct);
  auto comm = Communicator::create(*session, direct->id(), 0, 1);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kInvalidArgument);
  auto watched = Rendezvous::create(*session);
  ASSERT_TRUE(watched);
  comm = Communicator::create(watched->id(), 0, 1);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kInvalidArgument);
}

int is_refused(std::uint32_t rank, Board& board) {
  const auto session = open_session(rank, board);
  if (!session) return failed(rank, "session", session.error());
  const auto comm = Communicator::create(*session, board.id, 0, 1);
  if (comm) return 2;
  return comm.error().code == Errc::kPermissionDenied ? 0 : failed(rank, "create", comm.error());
}

TEST(SessionRanksTest, AnIdOfAnotherChannelIsRefused) {
  ProcessRanks ranks(1, is_refused);
  TestDaemon daemon;
  auto session = Session::open({.channel = daemon.channel(0), .gpu_index = 0});
  ASSERT_TRUE(session);
  auto rendezvous = Rendezvous::create(*session);
  ASSERT_TRUE(rendezvous);
  std::strncpy(ranks.board().text, daemon.channel(1).c_str(), sizeof ranks.board().text - 1);
  ranks.open(rendezvous->id());
  EXPECT_EQ(ranks.wait(0), 0);
}

}  // namespace
}  // namespace imex::exchange
