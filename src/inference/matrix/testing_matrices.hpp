/// For the tests of this room: random matrices of every type, and what their products must be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "inference/format/dequantize.hpp"
#include "inference/matrix/product.hpp"

namespace imex::inference::testing {

inline constexpr TensorType kWeightTypes[] = {TensorType::kF32, TensorType::kF16, TensorType::kBf16,
                                              TensorType::kQ40, TensorType::kQ41, TensorType::kQ50,
                                              TensorType::kQ51, TensorType::kQ80, TensorType::kQ4K,
                                              TensorType::kQ5K, TensorType::kQ6K};

/// A matrix as a file holds it, and the same ready for products.
class TestMatrix {
 public:
  TestMatrix(TensorType type, std::size_t rows, std::size_t columns, std::vector<std::byte> bytes)
      : type_(type), rows_(rows), columns_(columns), bytes_(std::move(bytes)) {
    values_.resize(rows * columns);
    dequantize(type, bytes_, values_);
    if (matrix_format(type)->packed) {
      image_.resize(packed_bytes(type, rows, columns), std::byte{0xff});
      const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
      const QuantisedSource source{type, rows, columns, bytes_};
      pack_rows(source, tiles / 2, tiles, image_);  // in two calls, in no order
      pack_rows(source, 0, tiles / 2, image_);
    } else {
      image_.resize(bytes_.size() + 1);  // at an odd address, with nothing behind it
      std::memcpy(image_.data() + 1, bytes_.data(), bytes_.size());
    }
  }

  static TestMatrix random(TensorType type, std::size_t rows, std::size_t columns,
                           std::uint32_t seed) {
    const TypeLayout& layout = layout_of(type);
    std::minstd_rand random(seed);
    std::vector<std::byte> bytes(rows * columns / layout.block_elements * layout.block_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8U);
    const auto put = [&](std::size_t at, auto value) {
      std::memcpy(bytes.data() + at, &value, sizeof value);
    };
    for (std::size_t at = 0; at != bytes.size(); at += layout.block_bytes) {
      const auto half = [&] {  // some 2^-5 to 2^-1 with a sign and all bits of fraction
        return static_cast<std::uint16_t>((random() >> 8U & 0x83ffU) | (10 + random() % 4) << 10U);
      };
      if (type == TensorType::kF32) {
        put(at, static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 7919.0F);
      } else if (type == TensorType::kBf16) {
        put(at,
            static_cast<std::uint16_t>((random() >> 8U & 0x807fU) | (123 + random() % 4) << 7U));
      } else if (type == TensorType::kQ6K) {
        put(at + 208, half());
      } else {
        put(at, half());
        if (type != TensorType::kF16 && type != TensorType::kQ40 && type != TensorType::kQ50 &&
            type != TensorType::kQ80) {
          put(at + 2, half());
        }
      }
    }
    return {type, rows, columns, std::move(bytes)};
  }

  [[nodiscard]] MatrixView view() const {
    return matrix_format(type_)->packed
               ? MatrixView::packed(type_, image_, rows_, columns_)
               : MatrixView::plain(type_, std::span(image_).subspan(1), rows_, columns_);
  }
  [[nodiscard]] float value(std::size_t row, std::size_t column) const {
    return values_[row * columns_ + column];
  }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] TensorType type() const { return type_; }

 private:
  TensorType type_;
  std::size_t rows_, columns_;
  std::vector<std::byte> bytes_;
  std::vector<float> values_;
  std::vector<std::byte> image_;
};

/// A product in double precision, and how far from it a kernel may be.
struct Expected {
  double value = 0;
  double tolerance = 0;
};

/// `exact_inputs`: rounding to 16 bits changes none of them.
inline Expected expected(const TestMatrix& matrix, std::size_t row, const float* in,
                         std::size_t first, std::size_t last, bool exact_inputs) {
  Expected sum;
  double largest_weight = 0;
  for (std::size_t c = first; c != last; ++c) {
    largest_weight = std::max(largest_weight, std::abs(double{matrix.value(row, c)}));
  }
  for (std::size_t begin = first; begin < last; begin += 32) {
    const std::size_t end = std::min(last, begin + 32);
    double largest = 0;
    double weights = 0;
    for (std::size_t c = begin; c != end; ++c) {
      const double weight = matrix.value(row, c);
      sum.value += weight * double{in[c]};
      weights += std::abs(weight);
      largest = std::max(largest, std::abs(double{in[c]}));
      // Float additions. Minimums cancel much of their integers, hence the largest weight, doubled.
      sum.tolerance += 2e-7 * 2 * largest_weight * std::abs(double{in[c]});
    }
    if (!exact_inputs && matrix_format(matrix.type())->packed) {
      sum.tolerance += 1.01 * weights * largest / 65534;
    }
  }
  sum.tolerance += 1e-30;
  return sum;
}

inline std::vector<float> random_inputs(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Integers of 16 bits times 2^-12, the largest in each block: rounding changes nothing.
inline std::vector<float> exact_inputs(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(count);
  for (std::size_t i = 0; i != count; ++i) {
    const int integer = i % 32 == seed % 32 ? 32767 : static_cast<int>(random() % 65535) - 32767;
    values[i] = static_cast<float>(integer) * 0x1p-12F;
  }
  return values;
}

inline std::vector<float> product(const MatrixView& matrix, const std::vector<float>& in,
                                  std::size_t tokens) {
  const std::size_t columns = matrix.column_count();
  Activations activations(tokens, columns);
  activations.set(in, tokens, columns);
  std::vector<float> out(tokens * matrix.row_count(), -1e30F);
  multiply(matrix, activations, out.data(), matrix.row_count());
  return out;
}

}  // namespace imex::inference::testing
