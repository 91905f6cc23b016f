#include "exchange/input_pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kPieceBytes = 4096;
/// Numbers of elements repeat after this many times the ranks.
constexpr std::uint32_t kKinds = 3;
/// Of the sum behind an average: an i8 holds it.
constexpr unsigned kSumMax = 127;

/// A float with `mantissa` bits of fraction.
std::uint64_t float_bits(unsigned value, unsigned mantissa, unsigned bias) {
  if (value == 0) return 0;
  const unsigned exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
  IMEX_ASSERT(exponent <= mantissa, "a whole number that the type does not hold exactly");
  const std::uint64_t fraction = std::uint64_t{value - (1U << exponent)} << (mantissa - exponent);
  return std::uint64_t{exponent + bias} << mantissa | fraction;
}

/// Elements that differ.
Tally tally_of(const std::byte* found, const std::byte* wanted, std::size_t bytes,
               std::size_t element_bytes, std::size_t first) {
  const std::size_t count = bytes / element_bytes;
  Tally tally{.compared = count};
  if (std::memcmp(found, wanted, count * element_bytes) == 0) return tally;
  for (std::size_t i = 0; i != count; ++i) {
    const std::size_t at = i * element_bytes;
    if (std::memcmp(found + at, wanted + at, element_bytes) == 0) continue;
    if (tally.wrong++ == 0) tally.first_wrong = first + i;
  }
  return tally;
}

}  // namespace

std::uint64_t element_bits(DataType type, unsigned value) noexcept {
  switch (type) {
    case DataType::kFloat8E4m3:
      return float_bits(value, 3, 7);
    case DataType::kFloat8E5m2:
      return float_bits(value, 2, 15);
    case DataType::kFloat16:
      return float_bits(value, 10, 15);
    case DataType::kBfloat16:
      return float_bits(value, 7, 127);
    case DataType::kFloat32:
      return float_bits(value, 23, 127);
    case DataType::kFloat64:
      return float_bits(value, 52, 1023);
    default:
      return value;
  }
}

// At each element one rank is special, another one elsewhere; each rank is somewhere. x % 3 tells
// neighbouring elements and calls apart.
unsigned ReducedPattern::input_at(ReduceOp op, std::uint32_t rank, std::uint32_t ranks,
                                  std::uint64_t x) noexcept {
  const auto place = static_cast<unsigned>((rank + x) % ranks);
  const auto kind = static_cast<unsigned>(x % kKinds);
  switch (op) {
    case ReduceOp::kSum:
      return place == 0 ? 1 + kind : place == 1 ? 2 : place == 2 ? 1 : 0;
    case ReduceOp::kProd:
      return place == 0 ? 1 + kind : place == 1 ? 2 : 1;
    case ReduceOp::kMax:
      return place == 0 ? 5 + kind : place % 4;
    case ReduceOp::kMin:
      return place == 0 ? kind : 4 + place % 4;
    case ReduceOp::kAvg: {
      const unsigned mean = 1 + kind % std::clamp(kSumMax / ranks, 1U, kKinds);
      return place == 0 ? mean + 1 : place == 1 ? mean - 1 : mean;
    }
  }
  return 0;
}

unsigned ReducedPattern::result_at(ReduceOp op, std::uint32_t ranks, std::uint64_t x) noexcept {
  unsigned result = input_at(op, 0, ranks, x);
  for (std::uint32_t rank = 1; rank != ranks; ++rank) {
    const unsigned input = input_at(op, rank, ranks, x);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += input;
        break;
      case ReduceOp::kProd:
        result *= input;
        break;
      case ReduceOp::kMax:
        result = std::max(result, input);
        break;
      case ReduceOp::kMin:
        result = std::min(result, input);
        break;
    }
  }
  return op == ReduceOp::kAvg ? result / ranks : result;
}

ReducedPattern::ReducedPattern(DataType type, ReduceOp op, std::uint32_t rank, std::uint32_t ranks)
    : element_bytes_(element_bytes(type)), period_(std::size_t{kKinds} * ranks) {
  const std::size_t period_bytes = period_ * element_bytes_;
  stride_bytes_ = (kPieceBytes + period_bytes - 1) / period_bytes * period_bytes;
  const std::size_t elements = stride_bytes_ / element_bytes_ + period_;  // any phase, one stride
  input_.resize(elements * element_bytes_);
  result_.resize(elements * element_bytes_);
  for (std::size_t i = 0; i != elements; ++i) {
    // Little-endian, as every machine that this runs on.
    const std::uint64_t input = element_bits(type, input_at(op, rank, ranks, i));
    const std::uint64_t result = element_bits(type, result_at(op, ranks, i));
    std::memcpy(input_.data() + i * element_bytes_, &input, element_bytes_);
    std::memcpy(result_.data() + i * element_bytes_, &result, element_bytes_);
  }
}

std::span<const std::byte> ReducedPattern::from(const std::vector<std::byte>& pattern,
                                                std::uint64_t call,
                                                std::size_t first) const noexcept {
  const std::size_t phase = (call % period_ + first % period_) % period_;
  return std::span(pattern).subspan(phase * element_bytes_, stride_bytes_);
}

void ReducedPattern::fill(std::span<std::byte> input, std::uint64_t call,
                          std::size_t first) const noexcept {
  const auto piece = from(input_, call, first);
  for (std::size_t at = 0; at < input.size(); at += piece.size()) {
    std::memcpy(input.data() + at, piece.data(), std::min(piece.size(), input.size() - at));
  }
}

Tally ReducedPattern::compare(std::span<const std::byte> result, std::uint64_t call,
                              std::size_t first) const noexcept {
  const auto piece = from(result_, call, first);
  Tally tally;
  for (std::size_t at = 0; at < result.size(); at += piece.size()) {
    const std::size_t bytes = std::min(piece.size(), result.size() - at);
    tally.add(tally_of(result.data() + at, piece.data(), bytes, element_bytes_,
                       first + at / element_bytes_));
  }
  return tally;
}

void MovedPattern::fill(std::span<std::byte> vector, std::uint32_t rank, std::uint64_t call,
                        std::size_t first) noexcept {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15ULL;  // all bytes change from word to word
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const std::uint64_t base = (call * 0x1'0000ULL + rank + 1) * 0xD6E8'FEB8'6659'FD93ULL;
  const auto word_at = [&](std::size_t number) { return base + number * kOdd; };
  std::size_t at = 0;
  if (const std::size_t odd = first % kWord; odd != 0) {
    const std::uint64_t word = word_at(first / kWord);
    at = std::min(kWord - odd, vector.size());
    std::memcpy(vector.data(), reinterpret_cast<const std::byte*>(&word) + odd, at);
  }
  std::size_t number = (first + at) / kWord;
  for (; at + kWord <= vector.size(); at += kWord, ++number) {
    const std::uint64_t word = word_at(number);
    std::memcpy(vector.data() + at, &word, kWord);
  }
  if (at < vector.size()) {
    const std::uint64_t word = word_at(number);
    std::memcpy(vector.data() + at, &word, vector.size() - at);
  }
}

Tally MovedPattern::compare(std::span<const std::byte> result, std::uint32_t rank,
                            std::uint64_t call, std::size_t first) const {
  Tally tally;
  std::vector<std::byte> wanted(std::min(kPieceBytes, result.size()));
  for (std::size_t at = 0; at < result.size(); at += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, result.size() - at);
    fill(std::span(wanted).first(bytes), rank, call, first + at);
    tally.add(tally_of(result.data() + at, wanted.data(), bytes, element_bytes_,
                       (first + at) / element_bytes_));
  }
  return tally;
}

}  // namespace imex::bench
