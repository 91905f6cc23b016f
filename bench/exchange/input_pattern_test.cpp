#include "exchange/input_pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <gtest/gtest.h>

namespace imex::bench {
namespace {

constexpr std::uint32_t kRanks[] = {2, 3, 5, 16, 72};

template <class Visit>
void for_each_type_and_op(Visit&& visit) {
  for (std::uint32_t type = 0; type != kDataTypeCount; ++type) {
    for (std::uint32_t op = 0; op != kReduceOpCount; ++op) {
      SCOPED_TRACE(std::string(data_type_name(static_cast<DataType>(type))) + " " +
                   std::string(reduce_op_name(static_cast<ReduceOp>(op))));
      visit(static_cast<DataType>(type), static_cast<ReduceOp>(op));
    }
  }
}

/// What a right library would leave.
std::vector<std::byte> right_result(DataType type, ReduceOp op, std::uint32_t ranks,
                                    std::uint64_t call, std::size_t first, std::size_t count) {
  const std::size_t size = element_bytes(type);
  std::vector<std::byte> result(count * size);
  for (std::size_t i = 0; i != count; ++i) {
    const auto value = ReducedPattern::result_at(op, ranks, first + i + call);
    const std::uint64_t bits = element_bits(type, value);
    std::memcpy(result.data() + i * size, &bits, size);
  }
  return result;
}

TEST(ElementBitsTest, AreThoseOfTheFormats) {
  EXPECT_EQ(element_bits(DataType::kFloat32, 3), std::bit_cast<std::uint32_t>(3.0F));
  EXPECT_EQ(element_bits(DataType::kFloat64, 7), std::bit_cast<std::uint64_t>(7.0));
  EXPECT_EQ(element_bits(DataType::kFloat32, 0), 0U);
  EXPECT_EQ(element_bits(DataType::kFloat16, 3), 0x4200U);
  EXPECT_EQ(element_bits(DataType::kBfloat16, 3), 0x4040U);
  EXPECT_EQ(element_bits(DataType::kFloat8E4m3, 7), 0x4EU);
  EXPECT_EQ(element_bits(DataType::kFloat8E5m2, 6), 0x46U);
  EXPECT_EQ(element_bits(DataType::kInt8, 5), 5U);
}

TEST(ReducedPatternTest, InputsAndResultsAreExactInEveryType) {
  for (const std::uint32_t ranks : kRanks) {
    for (std::uint32_t number = 0; number != kReduceOpCount; ++number) {
      const auto op = static_cast<ReduceOp>(number);
      for (std::uint64_t x = 0; x != 6 * ranks; ++x) {
        EXPECT_LE(ReducedPattern::result_at(op, ranks, x), 7U);
        unsigned sum = 0;
        for (std::uint32_t rank = 0; rank != ranks; ++rank) {
          const unsigned input = ReducedPattern::input_at(op, rank, ranks, x);
          EXPECT_LE(input, 7U);
          sum += input;
        }
        if (op != ReduceOp::kAvg) continue;
        EXPECT_EQ(sum % ranks, 0U);
        EXPECT_LE(sum, 127U);
      }
    }
  }
}

TEST(ReducedPatternTest, ARightResultIsRightWhereverItBegins) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    for (const std::uint32_t ranks : kRanks) {
      const ReducedPattern pattern(type, op, 0, ranks);
      const auto result = right_result(type, op, ranks, 1234567, 5001, 9001);
      const Tally tally = pattern.compare(result, 1234567, 5001);
      EXPECT_EQ(tally.compared, 9001U);
      EXPECT_EQ(tally.wrong, 0U) << ranks << " ranks";
    }
  });
}

TEST(ReducedPatternTest, EveryFlippedBitIsFound) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    const ReducedPattern pattern(type, op, 0, 2);
    constexpr std::size_t kCount = 4500, kElement = 4321;
    auto result = right_result(type, op, 2, 9, 0, kCount);
    for (std::size_t bit = 0; bit != 8 * element_bytes(type); ++bit) {
      std::byte& target = result[kElement * element_bytes(type) + bit / 8];
      target ^= std::byte{1} << (bit % 8);
      const Tally tally = pattern.compare(result, 9, 0);
      EXPECT_EQ(tally.wrong, 1U) << "bit " << bit;
      EXPECT_EQ(tally.first_wrong, kElement);
      target ^= std::byte{1} << (bit % 8);
    }
  });
}

TEST(ReducedPatternTest, AnInputThatWasLeftOutOrTakenTwiceChangesSomeResult) {
  for (const std::uint32_t ranks : kRanks) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      for (std::uint32_t rank = 0; rank != ranks; ++rank) {
        bool needed = false;
        for (std::uint64_t x = 0; x != 3 * ranks; ++x) {
          const unsigned own = ReducedPattern::input_at(op, rank, ranks, x);
          const bool neutral =
              (op == ReduceOp::kSum && own == 0) || (op == ReduceOp::kProd && own == 1);
          bool alone = true;  // nobody else has what decides
          for (std::uint32_t other = 0; other != ranks; ++other) {
            alone =
                alone && (other == rank || ReducedPattern::input_at(op, other, ranks, x) != own);
          }
          const bool decides = own == ReducedPattern::result_at(op, ranks, x) && alone;
          needed |= op == ReduceOp::kSum || op == ReduceOp::kProd ? !neutral : decides;
        }
        EXPECT_TRUE(needed) << reduce_op_name(op) << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST(ReducedPatternTest, AnOldResultOrOneOfTheNeighbourIsWrong) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    const ReducedPattern pattern(type, op, 0, 4);
    const auto result = right_result(type, op, 4, 7, 100, 600);
    EXPECT_NE(pattern.compare(result, 8, 100).wrong, 0U);
    EXPECT_NE(pattern.compare(result, 7, 101).wrong, 0U);
  });
}

TEST(ReducedPatternTest, FillGivesTheInputsOfTheRank) {
  const ReducedPattern pattern(DataType::kUint8, ReduceOp::kSum, 1, 3);
  std::vector<std::byte> input(5000);
  pattern.fill(input, 77, 13);
  for (std::size_t i = 0; i != input.size(); ++i) {
    ASSERT_EQ(std::to_integer<unsigned>(input[i]),
              ReducedPattern::input_at(ReduceOp::kSum, 1, 3, 77 + 13 + i));
  }
}

TEST(MovedPatternTest, PartsOfAVectorAreThoseOfTheWhole) {
  std::vector<std::byte> whole(10'000), part(1'001);
  MovedPattern::fill(whole, 3, 5, 0);
  for (const std::size_t first : {0UL, 1UL, 7UL, 8UL, 4095UL, 8999UL}) {
    MovedPattern::fill(part, 3, 5, first);
    EXPECT_TRUE(
        std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)));
  }
}

TEST(MovedPatternTest, OtherRanksCallsPlacesAndFlippedBitsAreWrong) {
  std::vector<std::byte> vector(9'000);
  MovedPattern::fill(vector, 3, 5, 64);
  const MovedPattern pattern(4);
  EXPECT_EQ(pattern.compare(vector, 3, 5, 64).wrong, 0U);
  EXPECT_EQ(pattern.compare(vector, 3, 5, 64).compared, vector.size() / 4);
  EXPECT_GT(pattern.compare(vector, 2, 5, 64).wrong, vector.size() / 8);
  EXPECT_GT(pattern.compare(vector, 3, 4, 64).wrong, vector.size() / 8);
  EXPECT_GT(pattern.compare(vector, 3, 5, 68).wrong, vector.size() / 8);
  for (std::size_t byte = 0; byte < vector.size(); byte += 501) {
    for (unsigned bit = 0; bit != 8; ++bit) {
      vector[byte] ^= std::byte{1} << bit;
      const Tally tally = pattern.compare(vector, 3, 5, 64);
      EXPECT_EQ(tally.wrong, 1U);
      EXPECT_EQ(tally.first_wrong, (64 + byte) / 4);
      vector[byte] ^= std::byte{1} << bit;
    }
  }
}

}  // namespace
}  // namespace imex::bench
