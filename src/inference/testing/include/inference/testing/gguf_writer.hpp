/// GGUF files, right or wrong.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace imex::inference::testing {

/// Writes a header field by field, right or wrong.
class GgufWriter {
 public:
  template <class T>
  GgufWriter& put(T value) {
    const auto bytes = std::as_bytes(std::span<const T, 1>(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  GgufWriter& text(std::string_view text) {
    put(std::uint64_t{text.size()});
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  GgufWriter& header(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
    return put(std::uint32_t{0x46554747}).put(version).put(tensors).put(pairs);
  }
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes,
                     std::uint32_t type, std::uint64_t offset) {
    text(name).put(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) put(size);
    return put(type).put(offset);
  }
  GgufWriter& data(std::size_t bytes, std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + bytes);
    return *this;
  }
  /// A whole pair: a key and a value of the type with that number.
  GgufWriter& pair(std::string_view key, std::uint32_t value) {
    return text(key).put(std::uint32_t{4}).put(value);
  }
  GgufWriter& pair(std::string_view key, float value) {
    return text(key).put(std::uint32_t{6}).put(std::bit_cast<std::uint32_t>(value));
  }
  GgufWriter& pair(std::string_view key, std::string_view value) {
    return text(key).put(std::uint32_t{8}).text(value);
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace imex::inference::testing
