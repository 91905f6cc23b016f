// Ranks as processes: what threads of one process cannot show.

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <imex/communicator.hpp>

#include "testing/process_ranks.hpp"

namespace imex::exchange {
namespace {

using testing_kit::Board;
using testing_kit::direct;
using testing_kit::failed;
using testing_kit::ProcessRanks;
using Clock = std::chrono::steady_clock;

class ProcessesTest : public ::testing::TestWithParam<std::uint32_t> {};

int sums(Communicator& comm, Board&) {
  std::vector<std::int32_t> data(200'000);
  for (const std::size_t count : {1U, 100U, 3'000U, 30'000U, 200'000U}) {
    for (int i = 0; i != 20; ++i) {
      std::fill(data.begin(), data.end(), static_cast<std::int32_t>(comm.rank()) + i);
      if (!comm.all_reduce(data.data(), data.data(), count, DataType::kInt32, ReduceOp::kSum))
        return 1;
      const auto n = static_cast<std::int32_t>(comm.size());
      const std::int32_t wanted = n * (n - 1) / 2 + n * i;
      if (data[0] != wanted || data[count - 1] != wanted) return 2;
    }
  }
  return 0;
}

TEST_P(ProcessesTest, SumThroughEachOthersWindows) {
  ProcessRanks ranks(GetParam(), direct(GetParam(), sums));
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  ranks.open(rendezvous->id());
  for (std::uint32_t rank = 0; rank != GetParam(); ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProcessesTest, ::testing::Values(2U, 3U, 8U));

// Rank 2 never comes; rank 1 comes, and its process ends. Rank 0 is told long before its deadline.
TEST(ProcessLossTest, ARankThatEndsBeforeAllHaveMetIsNamed) {
  ProcessRanks ranks(2, [](std::uint32_t rank, Board& board) {
    CommunicatorOptions options;
    if (rank == 1) options.timeout = std::chrono::milliseconds(50);
    const auto comm = Communicator::create(board.id, rank, 3, options);
    if (comm) return 2;
    const Error& error = comm.error();
    if (rank == 1) return error.code == Errc::kDeadlineExceeded ? 0 : 3;
    return error.code == Errc::kPeerLost && error.rank == 1 ? 0 : failed(rank, "create", error);
  });
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  const auto begin = Clock::now();
  ranks.open(rendezvous->id());
  EXPECT_EQ(ranks.wait(1), 0);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_LT(Clock::now() - begin, CommunicatorOptions{}.timeout / 2);
}

/// Exchanges until something ends it; then says when, and goes on without the dead.
int exchange_until_lost(Communicator& comm, Board& board) {
  std::vector<float> data(4'000);
  std::mt19937 random(comm.generation() == 1 ? 7 : 8);
  board.arrived.fetch_add(1);
  for (;;) {
    const auto count = random() % data.size();
    const auto done =
        comm.all_reduce(data.data(), data.data(), count, DataType::kFloat32, ReduceOp::kSum);
    if (done) continue;
    board.told_ns[comm.rank()] = Clock::now().time_since_epoch().count();
    if (done.error().code != Errc::kPeerLost || done.error().rank != 1)
      return failed(comm.rank(), "exchange", done.error());
    break;
  }
  const std::vector<std::uint32_t> lost{1};
  auto rest = comm.shrink(lost);
  if (!rest) return failed(comm.rank(), "shrink", rest.error());
  std::int32_t one = 1;
  if (!rest->all_reduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum)) return 3;
  return one == static_cast<std::int32_t>(comm.size()) - 1 ? 0 : 4;
}

// A rank is killed at random instants; every survivor says who was lost, and goes on without it.
TEST(ProcessLossTest, SurvivorsNameTheKilledRankAndGoOn) {
  std::mt19937 random(3);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kRounds = 4;
#else
  constexpr int kRounds = 25;
#endif
  std::int64_t worst_ns = 0;
  for (int round = 0; round != kRounds; ++round) {
    const std::uint32_t count = 2 + static_cast<std::uint32_t>(random() % 2);
    ProcessRanks ranks(count, direct(count, exchange_until_lost));
    auto rendezvous = Rendezvous::create();
    ASSERT_TRUE(rendezvous);
    ranks.open(rendezvous->id());
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (ranks.board().arrived != count) {
      ASSERT_LT(Clock::now(), deadline);
      ::sched_yield();
    }
    // Somewhere within the exchanges that follow.
    const auto instant = Clock::now() + std::chrono::microseconds(random() % 3000);
    while (Clock::now() < instant) ::sched_yield();
    ranks.kill(1);
    EXPECT_EQ(ranks.wait(1), -SIGKILL);
    for (std::uint32_t rank = 0; rank != count; ++rank) {
      if (rank == 1) continue;
      EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank << " of " << count << ", round " << round;
      worst_ns = std::max(worst_ns, ranks.board().told_ns[rank] - ranks.board().killed_ns);
    }
  }
  ::testing::Test::RecordProperty("worst_us", static_cast<int>(worst_ns / 1000));
  std::printf("[ worst    ] %lld us from the kill to the error\n",
              static_cast<long long>(worst_ns / 1000));
  EXPECT_LT(worst_ns, 1'000'000'000) << "survivors must be told long before their deadline";
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Each process maps the windows of all others: 72 of them with shadow memory take minutes.
constexpr std::uint32_t kMany = 8;
#else
constexpr std::uint32_t kMany = 72;
#endif
constexpr std::uint32_t kVictim = kMany * 5 / 9;

/// What the ranks hold together, seen by each of them; empty: nothing wrong.
int exchange_with_all(Communicator& comm) {
  const std::uint32_t n = comm.size();
  for (const std::size_t count : {1U, 500U, 3'000U}) {
    std::vector<std::int32_t> sums(count, static_cast<std::int32_t>(comm.rank()));
    if (auto done =
            comm.all_reduce(sums.data(), sums.data(), count, DataType::kInt32, ReduceOp::kSum);
        !done) {
      return failed(comm.rank(), "all_reduce", done.error());
    }
    const auto wanted = static_cast<std::int32_t>(n * (n - 1) / 2);
    if (std::ranges::count(sums, wanted) != static_cast<std::ptrdiff_t>(count)) return 10;
  }
  const std::uint64_t own = 1000 + comm.rank();
  std::vector<std::uint64_t> all(n);
  if (auto done = comm.all_gather(&own, all.data(), sizeof own); !done)
    return failed(comm.rank(), "all_gather", done.error());
  for (std::uint32_t rank = 0; rank != n; ++rank) {
    if (all[rank] != 1000 + rank) return 11;
  }
  if (auto done = comm.barrier(); !done) return failed(comm.rank(), "barrier", done.error());
  return 0;
}

int one_of_many(std::uint32_t rank, Board& board) {
  CommunicatorOptions options;
  options.slot_bytes = 4096;
  options.timeout = std::chrono::seconds(100);  // only a rank that is stuck waits for it
  auto comm = Communicator::create(board.id, rank, kMany, options);
  if (!comm) return failed(rank, "create", comm.error());
  if (const int wrong = exchange_with_all(*comm); wrong != 0) return wrong;
  board.arrived.fetch_add(1);
  for (;;) {
    const auto done = comm->barrier();
    if (done) continue;
    if (done.error().code != Errc::kPeerLost || done.error().rank != kVictim)
      return failed(rank, "barrier", done.error());
    break;
  }
  const std::vector<std::uint32_t> lost{kVictim};
  auto rest = comm->shrink(lost);
  if (!rest) return failed(rank, "shrink", rest.error());
  if (rest->size() != kMany - 1 || rest->rank() != rank - (rank > kVictim ? 1 : 0)) return 12;
  return exchange_with_all(*rest);
}

TEST(ManyProcessesTest, ExchangeLoseOneAndGoOn) {
  ProcessRanks ranks(kMany, one_of_many);
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  ranks.open(rendezvous->id());
  const auto deadline = Clock::now() + std::chrono::seconds(100);
  while (ranks.board().arrived != kMany) {
    ASSERT_LT(Clock::now(), deadline) << ranks.board().arrived << " ranks have come so far";
    ::sched_yield();
  }
  ranks.kill(kVictim);
  EXPECT_EQ(ranks.wait(kVictim), -SIGKILL);
  for (std::uint32_t rank = 0; rank != kMany; ++rank) {
    if (rank == kVictim) continue;
    EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
  }
}

// The one rank that has no memory says so; all are told, and may ask for less.
TEST(AllocateTest, OneRankWithoutMemoryEndsNothing) {
  ProcessRanks ranks(3, direct(3, [](Communicator& comm, Board&) {
                       rlimit former{};
                       ::getrlimit(RLIMIT_NOFILE, &former);
                       rlimit none = former;
                       none.rlim_cur = 3;
                       if (comm.rank() == 1) ::setrlimit(RLIMIT_NOFILE, &none);
                       const auto refused = comm.allocate(4096);
                       ::setrlimit(RLIMIT_NOFILE, &former);
                       if (refused) return 1;
                       if (refused.error().code != Errc::kResourceExhausted)
                         return failed(comm.rank(), "allocate", refused.error());
                       const bool named =
                           refused.error().to_string().find("rank 1") != std::string::npos;
                       if (!named && comm.rank() != 1) return 2;
                       const auto granted = comm.allocate(4096, {.pages = Pages::kSmall});
                       if (!granted) return failed(comm.rank(), "allocate again", granted.error());
                       return comm.barrier() ? 0 : 3;
                     }));
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  ranks.open(rendezvous->id());
  for (std::uint32_t rank = 0; rank != 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

}  // namespace
}  // namespace imex::exchange
