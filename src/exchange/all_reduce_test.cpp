// Every algorithm against the sequential reference, bit for bit.

#include <atomic>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "layout.hpp"
#include "testing/ranks.hpp"
#include "testing/reference.hpp"

namespace imex::exchange {
namespace {

using reference::Bytes;
using testing_kit::run_ranks;
using testing_kit::Verdict;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kCalls = 15;
#else
constexpr int kCalls = 40;
#endif

/// One call, the same in all ranks because all draw it from the same seed.
struct Case {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t elements = 0;
  std::size_t offset = 0;
  bool in_place = false;
  std::uint64_t seed = 0;
};

Case draw(std::mt19937_64& random, std::size_t bytes_max) {
  Case c;
  c.type = static_cast<DataType>(random() % kDataTypeCount);
  c.op = static_cast<ReduceOp>(random() % kReduceOpCount);
  // Small sizes as often as large ones.
  const std::size_t limit = std::max<std::size_t>(bytes_max >> random() % 16, 16);
  c.elements = random() % (limit / element_bytes(c.type) + 1);
  c.offset = random() % 9;
  c.in_place = random() % 2 == 0;
  c.seed = random();
  return c;
}

std::vector<Bytes> inputs_of(const Case& c, std::uint32_t ranks) {
  std::vector<Bytes> inputs;
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    inputs.push_back(reference::random_bytes(c.type, c.elements, c.seed + 2 * rank));
  }
  return inputs;
}

Verdict compare(const Case& c, const Bytes& found, const Bytes& wanted) {
  const std::ptrdiff_t at = reference::first_difference(c.type, found, wanted);
  if (at < 0) return {};
  return fmt::format("{} {} of {} elements, offset {}, in place {}: differs at byte {}",
                     reduce_op_name(c.op), data_type_name(c.type), c.elements, c.offset, c.in_place,
                     at);
}

/// `memory`: where the vectors lie, twice the largest size and some.
Verdict call_once(Communicator& comm, const Case& c, std::span<std::byte> memory) {
  const std::vector<Bytes> inputs = inputs_of(c, comm.size());
  const std::size_t bytes = inputs[0].size();
  std::byte* const in = memory.data() + c.offset;
  std::byte* const out = c.in_place ? in : memory.data() + memory.size() / 2 + c.offset;
  if (bytes != 0) std::memcpy(in, inputs[comm.rank()].data(), bytes);
  if (auto done = comm.all_reduce(in, out, c.elements, c.type, c.op); !done)
    return done.error().to_string();
  return compare(c, Bytes(out, out + bytes), reference::reduce(c.type, c.op, inputs));
}

struct Way {
  Algorithm algorithm;
  std::uint32_t ranks;
  std::size_t bytes_max;
};

class AllReduceTest : public ::testing::TestWithParam<Way> {};

TEST_P(AllReduceTest, EqualsTheReferenceBitForBit) {
  const Way way = GetParam();
  CommunicatorOptions options;
  options.algorithm = way.algorithm;
  options.slot_bytes = 8 << 10;
  run_ranks(way.ranks, options, [&](Communicator& comm) -> Verdict {
    std::mt19937_64 random(way.ranks);
    Bytes own(2 * way.bytes_max + 64);
    std::span<std::byte> memory = own;
    if (way.algorithm == Algorithm::kRegistered) {
      auto buffer = comm.allocate(own.size());
      if (!buffer) return buffer.error().to_string();
      memory = *buffer;
    }
    for (int i = 0; i != kCalls; ++i) {
      const Case c = draw(random, way.bytes_max);
      if (Verdict wrong = call_once(comm, c, memory); !wrong.empty())
        return fmt::format("call {}: {}", i, wrong);
    }
    return {};
  });
}

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U}) {
    all.push_back({Algorithm::kPacket, ranks, kPacketBytesMax});
    all.push_back({Algorithm::kMailbox, ranks, 100'000});
    all.push_back({Algorithm::kRing, ranks, 100'000});
    all.push_back({Algorithm::kRegistered, ranks, 100'000});
    all.push_back({Algorithm::kSingleCopy, ranks, 300'000});
    all.push_back({Algorithm::kAuto, ranks, 300'000});
  }
  all.push_back({Algorithm::kAuto, 1, 10'000});
  all.push_back({Algorithm::kAuto, 16, 20'000});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Ways, AllReduceTest, ::testing::ValuesIn(ways()), [](const auto& tested) {
  std::string name(algorithm_name(tested.param.algorithm));
  std::erase(name, '-');
  return fmt::format("{}{}", name, tested.param.ranks);
});

TEST(AllReduceManyRanksTest, SeventyTwoThreads) {
  CommunicatorOptions options;
  options.slot_bytes = 4096;
  run_ranks(72, options, [&](Communicator& comm) -> Verdict {
    std::mt19937_64 random(72);
    Bytes memory(2 * 4096 + 64);
    for (int i = 0; i != 3; ++i) {
      Case c = draw(random, 4096);
      if (Verdict wrong = call_once(comm, c, memory); !wrong.empty()) return wrong;
    }
    return testing_kit::verdict_of(comm.barrier());
  });
}

TEST(AllReduceLanesTest, LanesDoNotDisturbEachOther) {
  CommunicatorOptions options;
  options.lanes = 3;
  run_ranks(2, options, [&](Communicator& comm) -> Verdict {
    std::vector<Verdict> verdicts(options.lanes);
    std::vector<std::thread> threads;
    for (std::uint32_t lane = 0; lane != options.lanes; ++lane) {
      threads.emplace_back([&, lane] {
        std::vector<float> data(1000);
        for (int i = 0; i != kCalls; ++i) {
          std::fill(data.begin(), data.end(), static_cast<float>(lane + comm.rank()));
          auto done = comm.all_reduce(data.data(), data.data(), data.size(), DataType::kFloat32,
                                      ReduceOp::kSum, lane);
          if (!done) verdicts[lane] = done.error().to_string();
          const auto wanted = static_cast<float>(2 * lane + 1);
          if (data.front() != wanted || data.back() != wanted) verdicts[lane] = "wrong sum";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Verdict& verdict : verdicts) {
      if (!verdict.empty()) return verdict;
    }
    return {};
  });
}

}  // namespace
}  // namespace imex::exchange
