// All_reduce in two levels, over groups that the test makes up.

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testing/process_ranks.hpp"
#include "testing/ranks.hpp"
#include "testing/reference.hpp"
#include "trial.hpp"

namespace imex::exchange {
namespace {

using reference::Bytes;
using testing_kit::Board;
using testing_kit::failed;
using testing_kit::ProcessRanks;
using testing_kit::run_ranks_with;
using testing_kit::Verdict;
using testing_kit::verdict_of;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kCallsOfEach = 15;
#else
constexpr int kCallsOfEach = 30;
#endif
constexpr std::size_t kBytesMax = 300'000;

using Places = std::vector<std::uint32_t>;  ///< the group of each rank

CommunicatorOptions options_at(std::uint32_t place, Algorithm algorithm = Algorithm::kTwoLevel) {
  CommunicatorOptions options;
  options.slot_bytes = 8 << 10;
  options.determinism = Determinism::kConsistent;
  options.algorithm = algorithm;
  options.locality = place;
  return options;
}

void run_groups(const Places& places, const std::function<Verdict(Communicator&)>& body,
                Algorithm algorithm = Algorithm::kTwoLevel) {
  run_ranks_with([&](std::uint32_t rank) { return options_at(places[rank], algorithm); },
                 static_cast<std::uint32_t>(places.size()), body);
}

std::uint64_t two_level_calls(const Communicator& comm) {
  return comm.counters().by_algorithm[static_cast<std::size_t>(Algorithm::kTwoLevel)];
}

/// The same bits in all ranks.
Verdict same_everywhere(Communicator& comm, const Bytes& result) {
  std::uint64_t digest = 0xcbf2'9ce4'8422'2325ULL;
  for (const std::byte byte : result)
    digest = (digest ^ static_cast<std::uint64_t>(byte)) * 0x100'0000'01b3ULL;
  std::vector<std::uint64_t> all(comm.size());
  if (auto done = comm.all_gather(&digest, all.data(), sizeof digest); !done)
    return done.error().to_string();
  for (const std::uint64_t other : all) {
    if (other != digest) return "ranks hold different bits";
  }
  return {};
}

/// A call that all ranks draw alike.
Verdict exchange_once(Communicator& comm, std::mt19937_64& random) {
  const auto type = static_cast<DataType>(random() % kDataTypeCount);
  const bool is_float = reference::precision_of(type) != 0;
  constexpr std::array kFloatOps{ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
  const auto op = is_float ? kFloatOps[random() % kFloatOps.size()]
                           : static_cast<ReduceOp>(random() % kReduceOpCount);
  const std::size_t elements =
      random() % ((kBytesMax >> random() % 16) / element_bytes(type) + 1) + 1;
  const std::size_t offset = random() % 9;
  const bool in_place = random() % 2 == 0;
  // Odd: no NaNs nor infinities, which sums of floats cannot be compared by.
  const std::uint64_t seed = random() | 1U;
  std::vector<Bytes> inputs;
  for (std::uint32_t rank = 0; rank != comm.size(); ++rank)
    inputs.push_back(reference::random_bytes(type, elements, seed + 2 * rank));

  Bytes in_memory(kBytesMax + 64), out_memory(kBytesMax + 64);
  const std::size_t bytes = inputs[0].size();
  std::byte* const in = in_memory.data() + offset;
  std::byte* const out = in_place ? in : out_memory.data() + offset;
  std::memcpy(in, inputs[comm.rank()].data(), bytes);
  if (auto done = comm.all_reduce(in, out, elements, type, op); !done)
    return done.error().to_string();
  const Bytes found(out, out + bytes);
  if (Verdict wrong = same_everywhere(comm, found); !wrong.empty()) return wrong;
  if (is_float && op == ReduceOp::kSum) {
    const std::ptrdiff_t off = reference::first_far_off(type, inputs, found);
    return off < 0 ? Verdict{} : fmt::format("{} {} is far off", data_type_name(type), off);
  }
  const std::ptrdiff_t at =
      reference::first_difference(type, found, reference::reduce(type, op, inputs));
  if (at < 0) return {};
  return fmt::format("{} {} of {} elements differs at byte {}", reduce_op_name(op),
                     data_type_name(type), elements, at);
}

class TwoLevelTest : public ::testing::TestWithParam<Places> {};

TEST_P(TwoLevelTest, EqualsTheReferenceAsFarAsPartialSumsCan) {
  run_groups(GetParam(), [](Communicator& comm) -> Verdict {
    std::mt19937_64 random(comm.size());
    for (int i = 0; i != kCallsOfEach; ++i) {
      if (Verdict wrong = exchange_once(comm, random); !wrong.empty())
        return fmt::format("call {}: {}", i, wrong);
    }
    return two_level_calls(comm) > kCallsOfEach / 3 ? Verdict{} : "it went another way";
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, TwoLevelTest,
                         ::testing::Values(Places{0, 0, 1, 1}, Places{7, 7, 7, 3},
                                           Places{5, 0, 5, 5}, Places{0, 1, 2, 3, 0, 1, 2, 3},
                                           Places{0, 0, 0, 0, 1, 1, 1, 1}, Places{0, 0, 1}),
                         [](const auto& tested) {
                           std::string name = "of";
                           for (const std::uint32_t place : tested.param)
                             name += std::to_string(place);
                           return name;
                         });

TEST(TwoLevelChoiceTest, TheTrialTakesItInTurn) {
  run_groups(
      {0, 0, 1, 1},
      [](Communicator& comm) -> Verdict {
        std::vector<float> data(2000, 1.0F);
        for (std::uint32_t i = 0; i != 2 * Trial::kCandidatesMax * Trial::kRounds; ++i) {
          std::fill(data.begin(), data.end(), 1.0F);
          const auto done = comm.all_reduce(data.data(), data.data(), data.size(),
                                            DataType::kFloat32, ReduceOp::kSum);
          if (!done) return verdict_of(done);
          if (data.front() != 4.0F || data.back() != 4.0F) return "wrong sum";
        }
        if (two_level_calls(comm) < Trial::kRounds) return "not tried";
        return comm.explain(false).find("two-level") != std::string::npos ? "" : "not explained";
      },
      Algorithm::kAuto);
}

TEST(TwoLevelChoiceTest, NeverForTheDefaultOrderNorForAverages) {
  for (const bool by_default : {true, false}) {
    const auto options = [&](std::uint32_t rank) {
      CommunicatorOptions chosen = options_at(rank / 2);
      if (by_default) chosen.determinism = Determinism::kOrderInvariant;
      return chosen;
    };
    run_ranks_with(options, 4, [&](Communicator& comm) -> Verdict {
      std::vector<float> data(500, 2.0F);
      const auto op = by_default ? ReduceOp::kSum : ReduceOp::kAvg;
      const auto done =
          comm.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, op);
      if (!done) return verdict_of(done);
      if (data[499] != (by_default ? 8.0F : 2.0F)) return "wrong result";
      return two_level_calls(comm) == 0 ? Verdict{} : "partial sums";
    });
  }
}

TEST(TwoLevelLanesTest, LanesAndStartedOperationsDoNotMix) {
  const auto options = [](std::uint32_t rank) {
    CommunicatorOptions chosen = options_at(rank % 2);
    chosen.lanes = 3;
    return chosen;
  };
  run_ranks_with(options, 4, [](Communicator& comm) -> Verdict {
    std::vector<std::vector<std::int32_t>> data(3);
    for (int round = 0; round != 20; ++round) {
      std::vector<Request> requests;
      for (std::uint32_t lane = 0; lane != 3; ++lane) {
        data[lane].assign(5000, static_cast<std::int32_t>(lane + comm.rank()));
        auto request = comm.start_all_reduce(data[lane].data(), data[lane].data(), 5000,
                                             DataType::kInt32, ReduceOp::kSum, lane);
        if (!request) return request.error().to_string();
        requests.push_back(std::move(*request));
      }
      for (std::uint32_t lane = 0; lane != 3; ++lane) {
        if (const auto done = requests[lane].wait(); !done) return verdict_of(done);
        const auto wanted = static_cast<std::int32_t>(4 * lane + 6);
        if (data[lane].front() != wanted || data[lane].back() != wanted) return "wrong sum";
      }
    }
    return two_level_calls(comm) == 60 ? Verdict{} : "it went another way";
  });
}

TEST(TwoLevelFailureTest, AnAbortEndsBothLevels) {
  for (std::uint32_t aborter = 0; aborter != 4; ++aborter) {
    std::atomic<int> under_way{0};
    run_groups({0, 0, 1, 1}, [&](Communicator& comm) -> Verdict {
      std::vector<float> data(20'000);
      for (int round = 0;; ++round) {
        if (round == 3) ++under_way;
        // All have come this far, and are somewhere within.
        if (under_way == 4 && comm.rank() == aborter) comm.abort();
        const auto done = comm.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32,
                                          ReduceOp::kSum);
        if (done) continue;
        return done.error().code == Errc::kAborted ? Verdict{} : done.error().to_string();
      }
    });
  }
}

/// Exchanges until rank `told` of the board is lost, then goes on without it.
int exchange_until_killed(std::uint32_t rank, Board& board) {
  const std::uint32_t ranks = 5;
  auto comm = Communicator::create(board.id, rank, ranks, options_at(rank % 2));
  if (!comm) return failed(rank, "create", comm.error());
  std::vector<float> data(30'000);
  board.arrived.fetch_add(1);
  std::uint32_t victim = kNoRank;
  while (victim == kNoRank) {
    const auto done =
        comm->all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum);
    if (done) continue;
    victim = board.told.load();
    if (done.error().code != Errc::kPeerLost || done.error().rank != victim)
      return failed(rank, "all_reduce", done.error());
  }
  const std::vector<std::uint32_t> lost{victim};
  auto rest = comm->shrink(lost);
  if (!rest) return failed(rank, "shrink", rest.error());
  std::vector<std::int32_t> ones(3000, 1);
  if (!rest->all_reduce(ones.data(), ones.data(), ones.size(), DataType::kInt32, ReduceOp::kSum))
    return 3;
  if (ones.front() != 4 || ones.back() != 4) return 4;
  return two_level_calls(*rest) == 1 ? 0 : 5;
}

// A leader, one that is not, and one whose loss leaves a group of one.
TEST(TwoLevelFailureTest, SurvivorsNameTheKilledRankAndRegroup) {
  std::minstd_rand random(5);
  for (const std::uint32_t victim : {0U, 4U, 3U, 1U}) {
    ProcessRanks ranks(5, exchange_until_killed);
    auto rendezvous = Rendezvous::create();
    ASSERT_TRUE(rendezvous);
    ranks.board().told = victim;
    ranks.open(rendezvous->id());
    ASSERT_TRUE(testing_kit::reaches([&] { return ranks.board().arrived == 5; }));
    const auto instant =
        std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 5000);
    while (std::chrono::steady_clock::now() < instant) std::this_thread::yield();
    ranks.kill(victim);
    EXPECT_EQ(ranks.wait(victim), -SIGKILL);
    for (std::uint32_t rank = 0; rank != 5; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank << ", victim " << victim;
    }
  }
}

}  // namespace
}  // namespace imex::exchange
