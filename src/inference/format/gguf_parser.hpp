/// Reads a GGUF header front to back; every count and length is held against what is left.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.hpp"
#include "inference/format/gguf.hpp"

namespace imex::inference {

/// A tensor as the header describes it, before its bytes are known to exist.
struct GgufTensorEntry {
  std::string_view name;
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> shape;  ///< slowest first
  std::uint64_t offset = 0;          ///< from the start of the data
};

class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) noexcept : reader_(bytes) {}

  struct Counts {
    std::uint64_t tensors = 0, pairs = 0;
  };
  [[nodiscard]] Result<Counts> header();
  struct Pair {
    std::string_view key;
    GgufValue value;
  };
  [[nodiscard]] Result<Pair> pair();
  [[nodiscard]] Result<GgufTensorEntry> tensor();
  [[nodiscard]] std::size_t position() const noexcept { return reader_.position(); }

 private:
  [[nodiscard]] Result<std::string_view> string(std::string_view what);
  [[nodiscard]] Result<GgufValue> value(std::uint32_t type);
  [[nodiscard]] Result<GgufArray> array(unsigned depth);
  [[nodiscard]] Result<void> skip_elements(GgufType type, std::uint64_t count, unsigned depth);
  [[nodiscard]] tl::unexpected<Error> truncated(std::string_view what) const;

  ByteReader reader_;
};

/// The element type of that number in a file. Errors: kDataLoss.
[[nodiscard]] Result<GgufType> gguf_type(std::uint32_t number);
/// Bytes of a value of fixed size; 0 for strings and arrays.
[[nodiscard]] std::size_t gguf_type_bytes(GgufType type) noexcept;

}  // namespace imex::inference
