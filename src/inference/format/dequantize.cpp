#include "inference/format/dequantize.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "inference/format/half.hpp"

namespace imex::inference {

namespace {

/// One block and a place in it.
class Block {
 public:
  explicit Block(const std::byte* data) noexcept : data_(data) {}

  [[nodiscard]] unsigned byte(std::size_t at) const noexcept {
    return std::to_integer<unsigned>(data_[at]);
  }
  [[nodiscard]] float small(std::size_t at) const noexcept {  // a signed byte
    return static_cast<float>(static_cast<std::int8_t>(byte(at)));
  }
  [[nodiscard]] float half(std::size_t at) const noexcept {
    return f16_to_f32(load<std::uint16_t>(at));
  }
  template <class T>
  [[nodiscard]] T load(std::size_t at) const noexcept {
    T value{};
    std::memcpy(&value, data_ + at, sizeof(T));
    return value;
  }

 private:
  const std::byte* data_;
};

void f32(Block in, float* out) noexcept { *out = in.load<float>(0); }
void f16(Block in, float* out) noexcept { *out = in.half(0); }
void bf16(Block in, float* out) noexcept { *out = bf16_to_f32(in.load<std::uint16_t>(0)); }

void q4_0(Block in, float* out) noexcept {
  const float d = in.half(0);
  for (std::size_t i = 0; i < 16; ++i) {
    const unsigned pair = in.byte(2 + i);
    out[i] = d * (static_cast<float>(pair & 15U) - 8.0F);
    out[i + 16] = d * (static_cast<float>(pair >> 4U) - 8.0F);
  }
}

void q4_1(Block in, float* out) noexcept {
  const float d = in.half(0);
  const float m = in.half(2);
  for (std::size_t i = 0; i < 16; ++i) {
    const unsigned pair = in.byte(4 + i);
    out[i] = d * static_cast<float>(pair & 15U) + m;
    out[i + 16] = d * static_cast<float>(pair >> 4U) + m;
  }
}

/// Element i of 32 values of five bits: nibbles at `nibbles`, fifth bits in `high`.
struct FiveBits {
  std::uint32_t high;
  std::size_t nibbles;

  [[nodiscard]] float low_half(Block in, std::size_t i) const noexcept {
    return static_cast<float>((in.byte(nibbles + i) & 15U) | (high >> i & 1U) << 4U);
  }
  [[nodiscard]] float high_half(Block in, std::size_t i) const noexcept {
    return static_cast<float>(in.byte(nibbles + i) >> 4U | (high >> (i + 16) & 1U) << 4U);
  }
};

void q5_0(Block in, float* out) noexcept {
  const float d = in.half(0);
  const FiveBits q{in.load<std::uint32_t>(2), 6};
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * (q.low_half(in, i) - 16.0F);
    out[i + 16] = d * (q.high_half(in, i) - 16.0F);
  }
}

void q5_1(Block in, float* out) noexcept {
  const float d = in.half(0);
  const float m = in.half(2);
  const FiveBits q{in.load<std::uint32_t>(4), 8};
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * q.low_half(in, i) + m;
    out[i + 16] = d * q.high_half(in, i) + m;
  }
}

void q8_0(Block in, float* out) noexcept {
  const float d = in.half(0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * in.small(2 + i);
}

struct ScaleAndMinimum {
  float scale, minimum;
};

/// Group 0-7 of the 12 bytes at `at`: the first four pairs are the low six bits of bytes 0-3 and
/// 4-7; of the other four, bytes 8-11 hold the low nibbles and the spare top bits the rest.
ScaleAndMinimum k_group(Block in, std::size_t at, std::size_t group) noexcept {
  const float d = in.half(0);
  const float dmin = in.half(2);
  unsigned scale = 0;
  unsigned minimum = 0;
  if (group < 4) {
    scale = in.byte(at + group) & 63U;
    minimum = in.byte(at + group + 4) & 63U;
  } else {
    const unsigned low = in.byte(at + group + 4);
    scale = (low & 15U) | in.byte(at + group - 4) >> 6U << 4U;
    minimum = low >> 4U | in.byte(at + group) >> 6U << 4U;
  }
  return {d * static_cast<float>(scale), dmin * static_cast<float>(minimum)};
}

void q4_k(Block in, float* out) noexcept {
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [d, m] = k_group(in, 4, group);
    const std::size_t bytes = 16 + group / 2 * 32;  // even groups: low nibbles, odd: high
    for (std::size_t i = 0; i < 32; ++i) {
      const unsigned q = in.byte(bytes + i) >> group % 2 * 4 & 15U;
      out[group * 32 + i] = d * static_cast<float>(q) - m;
    }
  }
}

void q5_k(Block in, float* out) noexcept {
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [d, m] = k_group(in, 4, group);
    const std::size_t bytes = 48 + group / 2 * 32;
    for (std::size_t i = 0; i < 32; ++i) {
      const unsigned fifth = in.byte(16 + i) >> group & 1U;
      const unsigned q = (in.byte(bytes + i) >> group % 2 * 4 & 15U) | fifth << 4U;
      out[group * 32 + i] = d * static_cast<float>(q) - m;
    }
  }
}

/// Each half of 128 elements: four rows of 32; row r has nibbles in bytes 32 (r % 2)... and bits
/// 2r, 2r + 1 of the 32 bytes after them.
void q6_k(Block in, float* out) noexcept {
  constexpr std::size_t kHigh = 128;
  constexpr std::size_t kScales = 192;
  const float d = in.half(208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128;
    const std::size_t row = i / 32 % 4;
    const std::size_t column = i % 32;
    const unsigned low = in.byte(half * 64 + row % 2 * 32 + column) >> row / 2 * 4 & 15U;
    const unsigned high = in.byte(kHigh + half * 32 + column) >> row * 2 & 3U;
    const float scale = d * in.small(kScales + i / 16);
    out[i] = scale * (static_cast<float>(low | high << 4U) - 32.0F);
  }
}

using Decoder = void (*)(Block, float*) noexcept;
constexpr std::array<Decoder, 11> kDecoders{f32,  f16,  bf16, q4_0, q4_1, q5_0,
                                            q5_1, q8_0, q4_k, q5_k, q6_k};
static_assert(kDecoders.size() == static_cast<std::size_t>(TensorType::kQ6K) + 1);

}  // namespace

void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out) noexcept {
  const TypeLayout& layout = layout_of(type);
  IMEX_ASSERT(layout.weight, "only weight types have a value");
  const std::size_t count = blocks.size() / layout.block_bytes;
  IMEX_ASSERT(
      blocks.size() % layout.block_bytes == 0 && out.size() == count * layout.block_elements,
      "whole blocks, and room for exactly their elements");
  const Decoder decode = kDecoders[static_cast<std::size_t>(type)];
  for (std::size_t i = 0; i < count; ++i) {
    decode(Block(blocks.data() + i * layout.block_bytes), out.data() + i * layout.block_elements);
  }
}

}  // namespace imex::inference
