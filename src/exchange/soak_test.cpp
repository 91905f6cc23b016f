// Communicators of processes that do anything, again and again, and lose ranks, split, grow and
// abort. IMEX_SOAK_SECONDS=N goes on for so long (default: a few); a failure prints the seed of its
// round, and IMEX_SOAK_SEED=N begins with that one.

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/result.hpp"
#include "testing/process_ranks.hpp"
#include "testing/soak_script.hpp"

namespace imex::exchange {
namespace {

using testing_kit::Board;
using testing_kit::failed;
using testing_kit::ProcessRanks;
using testing_kit::reaches;
using testing_kit::SoakScript;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSteps = 15;
constexpr std::uint32_t kNewcomersMax = 2;

/// How a round ends.
enum class Ending : std::uint8_t { kCalm, kKill, kAbort, kLeave, kSplit, kGrow, kCount };
constexpr std::array kEndings{"calm", "kill", "abort", "leave", "split", "grow"};

/// What the seed of a round says.
struct Round {
  std::uint64_t seed = 0;
  std::uint32_t ranks = 2, newcomers = 0;
  std::uint32_t chosen = 0;  ///< dies, aborts, or leaves
  Ending ending = Ending::kCalm;
  /// 0: by topology; else ranks of one number modulo this, or divided by it.
  std::uint32_t near = 0;
  CommunicatorOptions options;

  explicit Round(std::uint64_t seed_) : seed(seed_) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint32_t limit) {
      return static_cast<std::uint32_t>(random() % limit);
    };
    ranks = 2 + below(4);
    chosen = below(ranks);
    ending = static_cast<Ending>(below(static_cast<std::uint32_t>(Ending::kCount)));
    if (ending == Ending::kGrow) newcomers = 1 + below(kNewcomersMax);
    near = below(4);
    options.lanes = 1 + below(3);
    options.slot_bytes = std::size_t{4096} << below(5);
    options.determinism = static_cast<Determinism>(below(3));
    options.algorithm = static_cast<Algorithm>(below(kAlgorithmCount));
    options.check = below(2) == 0;
    options.timeout = std::chrono::seconds(60);  // only who is stuck waits for it
  }
  [[nodiscard]] CommunicatorOptions options_of(std::uint32_t rank) const {
    CommunicatorOptions own = options;
    if (near == 1) own.locality = rank / 2;
    if (near > 1) own.locality = rank % near;
    return own;
  }
  /// `part`: another one for each script of a communicator.
  [[nodiscard]] SoakScript script(Communicator& comm, std::uint32_t part) const {
    return {comm,
            {.seed = seed + part,
             .lanes = options.lanes,
             .exact = options.determinism == Determinism::kOrderInvariant,
             .signal = part}};
  }
};

/// Shared by the ranks of a round, beside their board.
struct Growth {
  std::atomic<std::uint32_t> open{0};
  UniqueId id;
};

Result<void> steps(SoakScript script, std::uint32_t count) {
  for (std::uint32_t i = 0; i != count; ++i) {
    if (auto done = script.step(); !done)
      return fail(std::move(done).error().context("step " + std::to_string(i)));
  }
  return {};
}

/// Until the communicator ends, by `code`.
Result<Error> until_ended(SoakScript script, Errc code) {
  for (;;) {
    const auto done = script.step();
    if (done) continue;
    if (done.error().code == code) return done.error();
    return fail(done.error());
  }
}

Result<void> lose_one(const Round& round, Communicator& comm) {
  IMEX_TRY(const Error error, until_ended(round.script(comm, 1), Errc::kPeerLost));
  if (error.rank != round.chosen) return fail(Error(error).context("another rank was lost"));
  const std::vector<std::uint32_t> dead{round.chosen};
  IMEX_TRY(Communicator rest, comm.shrink(dead));
  return steps(round.script(rest, 2), kSteps);
}

Result<void> be_aborted(const Round& round, Communicator& comm) {
  std::jthread aborter;
  if (comm.rank() == round.chosen) {
    aborter = std::jthread([&comm, spins = round.seed % 4000] {
      for (auto left = spins; left != 0; --left) std::this_thread::yield();
      comm.abort();
    });
  }
  IMEX_TRY(const Error error, until_ended(round.script(comm, 1), Errc::kAborted));
  static_cast<void>(error);
  return {};
}

Result<void> leave_one(const Round& round, Communicator& comm) {
  IMEX_CHECK_OK(steps(round.script(comm, 1), kSteps));
  IMEX_CHECK_OK(comm.barrier());
  if (comm.rank() == round.chosen) return {};
  const std::vector<std::uint32_t> gone{round.chosen};
  IMEX_TRY(Communicator rest, comm.shrink(gone));
  return steps(round.script(rest, 2), kSteps);
}

Result<void> split_up(const Round& round, Communicator& comm) {
  const std::optional<std::uint32_t> color =
      comm.rank() == round.chosen ? std::nullopt : std::optional(comm.rank() % 2);
  IMEX_TRY(auto part, comm.split(color, -static_cast<std::int64_t>(comm.rank())));
  if (part) IMEX_CHECK_OK(steps(round.script(*part, 1), kSteps));
  return steps(round.script(comm, 2), kSteps);
}

Result<void> grow_up(const Round& round, Growth& growth, Communicator& comm) {
  std::optional<Rendezvous> place;
  if (comm.rank() == 0) {
    IMEX_TRY(place, comm.rendezvous());
    growth.id = place->id();
    growth.open.store(1);
  }
  if (!reaches([&] { return growth.open.load() != 0; })) return fail(Errc::kInternal, "no place");
  IMEX_TRY(Communicator all, comm.grow(growth.id, round.ranks + round.newcomers));
  return steps(round.script(all, 1), kSteps);
}

Result<void> old_rank(const Round& round, Growth& growth, Communicator& comm, Board& board) {
  IMEX_CHECK_OK(steps(round.script(comm, 0), kSteps / 3));
  board.arrived.fetch_add(1);
  switch (round.ending) {
    case Ending::kKill:
      return lose_one(round, comm);
    case Ending::kAbort:
      return be_aborted(round, comm);
    case Ending::kLeave:
      return leave_one(round, comm);
    case Ending::kSplit:
      return split_up(round, comm);
    case Ending::kGrow:
      return grow_up(round, growth, comm);
    default:
      return steps(round.script(comm, 1), kSteps);
  }
}

int one_rank(const Round& round, Growth& growth, std::uint32_t rank, Board& board) {
  const CommunicatorOptions options = round.options_of(rank);
  if (rank < round.ranks) {
    auto comm = Communicator::create(board.id, rank, round.ranks, options);
    if (!comm) return failed(rank, "create", comm.error());
    const auto done = old_rank(round, growth, *comm, board);
    return done ? 0 : failed(rank, kEndings[static_cast<std::size_t>(round.ending)], done.error());
  }
  if (!reaches([&] { return growth.open.load() != 0; })) return 97;
  auto comm = Communicator::create(growth.id, rank, round.ranks + round.newcomers, options);
  if (!comm) return failed(rank, "join", comm.error());
  const auto done = steps(round.script(*comm, 1), kSteps);
  return done ? 0 : failed(rank, "as a newcomer", done.error());
}

/// Memory that the processes of a round share.
class SharedGrowth {
 public:
  SharedGrowth()
      : growth_(new(::mmap(nullptr, sizeof(Growth), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Growth()) {}
  SharedGrowth(const SharedGrowth&) = delete;
  SharedGrowth& operator=(const SharedGrowth&) = delete;
  ~SharedGrowth() { ::munmap(growth_, sizeof(Growth)); }
  [[nodiscard]] Growth& operator*() const noexcept { return *growth_; }

 private:
  Growth* growth_;
};

void run_round(const Round& round) {
  const SharedGrowth growth;
  const std::uint32_t all = round.ranks + round.newcomers;
  ProcessRanks ranks(
      all, [&](std::uint32_t rank, Board& board) { return one_rank(round, *growth, rank, board); });
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  ranks.open(rendezvous->id());
  const bool kills = round.ending == Ending::kKill;
  if (kills) {
    ASSERT_TRUE(reaches([&] { return ranks.board().arrived == round.ranks; }));
    const auto instant = Clock::now() + std::chrono::microseconds(round.seed % 20'000);
    while (Clock::now() < instant) std::this_thread::yield();
    ranks.kill(round.chosen);
  }
  for (std::uint32_t rank = 0; rank != all; ++rank)
    EXPECT_EQ(ranks.wait(rank), kills && rank == round.chosen ? -SIGKILL : 0) << "rank " << rank;
}

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(SoakTest, AnythingInAnyOrder) {
  const auto length = std::chrono::seconds(number_from("IMEX_SOAK_SECONDS", 4));
  std::uint64_t seed = number_from("IMEX_SOAK_SEED", std::random_device()());
  const auto begin = Clock::now();
  auto next_line = begin;
  std::uint64_t rounds = 0;
  for (; Clock::now() - begin < length; ++rounds, ++seed) {
    const Round round(seed);
    if (Clock::now() >= next_line) {
      std::printf("[ soak     ] round %llu, seed %llu: %u ranks, %s\n",
                  static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(seed),
                  round.ranks, kEndings[static_cast<std::size_t>(round.ending)]);
      std::fflush(stdout);
      next_line = Clock::now() + std::chrono::seconds(10);
    }
    SCOPED_TRACE("replay with IMEX_SOAK_SEED=" + std::to_string(seed));
    run_round(round);
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("[ soak     ] %llu rounds\n", static_cast<unsigned long long>(rounds));
}

}  // namespace
}  // namespace imex::exchange
