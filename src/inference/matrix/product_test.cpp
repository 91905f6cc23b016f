#include "inference/matrix/product.hpp"

#include <array>
#include <bit>
#include <iostream>
#include <limits>

#include "inference/format/half.hpp"
#include "testing_matrices.hpp"

namespace imex::inference {
namespace {

using testing::expected;
using testing::kWeightTypes;
using testing::product;
using testing::TestMatrix;

/// Every instruction set that this processor has and the build contains.
class ProductTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { use_kernel_target(GetParam()); }
  void TearDown() override { use_kernel_target(kernel_targets().front()); }
};

void expect_product(const TestMatrix& matrix, const std::vector<float>& in, std::size_t tokens,
                    bool exact) {
  const std::vector<float> out = product(matrix.view(), in, tokens);
  for (std::size_t token = 0; token != tokens; ++token) {
    for (std::size_t row = 0; row != matrix.rows(); ++row) {
      const auto want =
          expected(matrix, row, in.data() + token * matrix.columns(), 0, matrix.columns(), exact);
      ASSERT_NEAR(out[token * matrix.rows() + row], want.value, want.tolerance)
          << layout_of(matrix.type()).name << " [" << matrix.rows() << ", " << matrix.columns()
          << "] row " << row << ", token " << token << " of " << tokens << " on "
          << kernel_target();
    }
  }
}

// Instrumented kernels take 20 times as long: enough of each kind of rest for them, too.
#ifdef IMEX_FEW_TARGETS
constexpr std::array<std::size_t, 3> kRowCounts{1, 17, 40};
#else
constexpr std::array<std::size_t, 5> kRowCounts{1, 15, 17, 100, 200};
#endif

TEST_P(ProductTest, IsThatOfTheDequantisedMatrixForAllTypesAndShapes) {
  std::uint32_t seed = 0;
  for (const TensorType type : kWeightTypes) {
    const std::size_t unit = matrix_format(type)->column_unit;
    for (const std::size_t rows : kRowCounts) {
      for (const std::size_t groups : {1U, 2U, 3U, 7U}) {
        // Plain types have no unit: 1 to 133 columns, with every kind of rest.
        const std::size_t columns = unit == 1    ? groups * 19
                                    : unit == 32 ? groups * 32
                                                 : (groups + 1) / 2 * unit;
        const TestMatrix matrix = TestMatrix::random(type, rows, columns, ++seed);
        for (const std::size_t tokens : {1U, 2U, 3U, 7U, 8U, 9U, 33U}) {
          if (rows == 100 && tokens == 33 && groups != 3) continue;  // enough of them
          ++seed;
          ASSERT_NO_FATAL_FAILURE(
              expect_product(matrix, testing::exact_inputs(tokens * columns, seed), tokens, true));
        }
        ASSERT_NO_FATAL_FAILURE(
            expect_product(matrix, testing::random_inputs(3 * columns, ++seed), 3, false));
      }
    }
  }
}

// Goal: what the engine promises about batches. Each token alone, and ranges of rows, must give the
// bits of the whole.
TEST_P(ProductTest, BitsDependNeitherOnTheBatchNorOnTheRangeOfRows) {
  constexpr std::size_t kRows = 100;
  constexpr std::size_t kTokens = 15;  // tiles of 8, 4, 2 and 1
  for (const TensorType type : kWeightTypes) {
    const std::size_t unit = matrix_format(type)->column_unit;
    const std::size_t columns = unit == 1 ? 117 : unit == 32 ? 160 : 512;
    const TestMatrix matrix = TestMatrix::random(type, kRows, columns, 7);
    const std::vector<float> in = testing::random_inputs(kTokens * columns, 8);
    const std::vector<float> whole = product(matrix.view(), in, kTokens);
    const auto same = [&](const std::vector<float>& part, std::size_t token, std::size_t tokens,
                          std::size_t row, std::size_t rows) {
      for (std::size_t t = 0; t != tokens; ++t) {
        for (std::size_t r = 0; r != rows; ++r) {
          const float want = whole[(token + t) * kRows + row + r];
          ASSERT_EQ(std::bit_cast<std::uint32_t>(part[t * rows + r]),
                    std::bit_cast<std::uint32_t>(want))
              << layout_of(type).name << " on " << kernel_target() << ": token " << token + t
              << " of a batch of " << tokens << ", row " << row + r << " of " << rows << " from "
              << row;
        }
      }
    };
    for (std::size_t token = 0; token != kTokens; ++token) {
      for (std::size_t tokens = 1; tokens <= kTokens - token; tokens += token == 0 ? 1 : 3) {
        const std::vector<float> some(
            in.begin() + static_cast<std::ptrdiff_t>(token * columns),
            in.begin() + static_cast<std::ptrdiff_t>((token + tokens) * columns));
        ASSERT_NO_FATAL_FAILURE(
            same(product(matrix.view(), some, tokens), token, tokens, 0, kRows));
      }
    }
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 1},
                                     {0, 16},
                                     {1, 100},
                                     {15, 17},
                                     {16, 48},
                                     {33, 34},
                                     {37, 93},
                                     {64, 100},
                                     {96, 100}}) {
      ASSERT_NO_FATAL_FAILURE(same(product(matrix.view().rows(begin, end), in, kTokens), 0, kTokens,
                                   begin, end - begin));
    }
    const MatrixView part_of_part = matrix.view().rows(5, 90).rows(14, 60);
    ASSERT_NO_FATAL_FAILURE(same(product(part_of_part, in, kTokens), 0, kTokens, 19, 46));
  }
}

TEST_P(ProductTest, PartsOfColumnsReadTheirPartOfTheInputs) {
  for (const TensorType type : kWeightTypes) {
    const std::size_t unit = matrix_format(type)->column_unit;
    const std::size_t columns = unit == 1 ? 117 : unit * 5;
    const std::size_t begin = unit == 1 ? 13 : unit;
    const std::size_t end = unit == 1 ? 90 : unit * 4;
    const TestMatrix matrix = TestMatrix::random(type, 20, columns, 3);
    const std::vector<float> in = testing::random_inputs(9 * columns, 4);
    Activations activations(9, columns);
    activations.set(in, 9, columns);
    std::vector<float> out(9 * 50, -1.0F);
    const MatrixView part = matrix.view().columns(begin, end);
    multiply(part, {activations, begin}, out.data(), 50);
    for (std::size_t token = 0; token != 9; ++token) {
      for (std::size_t row = 0; row != 20; ++row) {
        const auto want = expected(matrix, row, in.data() + token * columns, begin, end, false);
        ASSERT_NEAR(out[token * 50 + row], want.value, want.tolerance) << layout_of(type).name;
      }
      for (std::size_t behind = 20; behind != 50; ++behind) {
        ASSERT_EQ(out[token * 50 + behind], -1.0F) << "only what was asked for is written";
      }
    }
  }
}

// The largest magnitudes of both sides in all places: 32 integer products must fit their sum.
TEST_P(ProductTest, TheLargestIntegersDoNotOverflow) {
  for (const TensorType type :
       {TensorType::kQ40, TensorType::kQ41, TensorType::kQ50, TensorType::kQ51, TensorType::kQ80,
        TensorType::kQ4K, TensorType::kQ5K, TensorType::kQ6K}) {
    const TypeLayout& layout = layout_of(type);
    for (const int fill : {0x00, 0xff, 0x7f, 0x80}) {
      std::vector<std::byte> bytes(std::size_t{17} * 2 * layout.block_bytes,
                                   static_cast<std::byte>(fill));
      for (std::size_t at = 0; at != bytes.size(); at += layout.block_bytes) {
        const std::uint16_t one = 0x3c00;
        std::memcpy(bytes.data() + at + (type == TensorType::kQ6K ? 208 : 0), &one, 2);
        if (packed_bytes(type, 16, layout.block_elements) != 0 && type != TensorType::kQ40 &&
            type != TensorType::kQ50 && type != TensorType::kQ80 && type != TensorType::kQ6K) {
          std::memcpy(bytes.data() + at + 2, &one, 2);
        }
      }
      const TestMatrix matrix(type, 17, std::size_t{2} * layout.block_elements, std::move(bytes));
      for (const float input : {1.0F, -1.0F, 3e30F, -3e30F}) {
        const std::vector<float> in(matrix.columns() * 3, input);
        ASSERT_NO_FATAL_FAILURE(expect_product(matrix, in, 3, true));
      }
    }
  }
}

TEST_P(ProductTest, ZerosAndTinyInputsGiveZeros) {
  const TestMatrix matrix = TestMatrix::random(TensorType::kQ41, 16, 64, 5);
  for (const float input : {0.0F, -0.0F, std::numeric_limits<float>::denorm_min(), 1e-38F}) {
    for (const float out : product(matrix.view(), std::vector<float>(64, input), 1)) {
      EXPECT_NEAR(out, 0.0F, 1e-33F);
    }
  }
}

TEST_P(ProductTest, ANumberThatIsNoneReachesItsTokenAndNoOther) {
  for (const TensorType type : kWeightTypes) {
    const TestMatrix matrix = TestMatrix::random(type, 33, 256, 6);
    for (const float poison :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> in = testing::random_inputs(3 * 256, 9);
      in[256 + 77] = poison;
      const std::vector<float> out = product(matrix.view(), in, 3);
      for (std::size_t i = 0; i != out.size(); ++i) {
        ASSERT_EQ(std::isfinite(out[i]), i / 33 != 1) << layout_of(type).name << ' ' << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ProductTest, ::testing::ValuesIn(kernel_targets()),
                         [](const auto& tested) {
                           std::string name(tested.param);
                           std::erase_if(name, [](char c) { return c == ' ' || c == '-'; });
                           return name;
                         });

TEST(KernelTargetTest, TheBestIsChosenAndTheLastRunsEverywhere) {
  EXPECT_EQ(kernel_target(), kernel_targets().front());
  std::cout << "[ target   ]";
  for (const std::string_view name : kernel_targets()) std::cout << ' ' << name << ';';
  std::cout << '\n';
}

}  // namespace
}  // namespace imex::inference
