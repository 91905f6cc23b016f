/// Little-endian reading and writing of fixed layouts. Every byte format of Imex goes through
/// these.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.hpp"

namespace imex {

static_assert(std::endian::native == std::endian::little, "layouts are copied, not swapped");

/// Writes fields one after the other into a buffer of known size. Overrun is our own mistake.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> out) noexcept : out_(out) {}

  template <std::integral T>
  ByteWriter& put(T value) noexcept {
    return put_bytes(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  ByteWriter& put_bytes(std::span<const std::byte> bytes) noexcept {
    IMEX_ASSERT(bytes.size() <= out_.size() - at_, "layout overrun");
    if (!bytes.empty()) std::memcpy(out_.data() + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
    return *this;
  }
  ByteWriter& skip(std::size_t count) noexcept {
    IMEX_ASSERT(count <= out_.size() - at_, "layout overrun");
    std::memset(out_.data() + at_, 0, count);
    at_ += count;
    return *this;
  }
  [[nodiscard]] std::size_t position() const noexcept { return at_; }

 private:
  std::span<std::byte> out_;
  std::size_t at_ = 0;
};

/// Reads fields from bytes of unknown origin: reading past the end gives zeros and clears ok().
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) noexcept : in_(in) {}

  template <std::integral T>
  [[nodiscard]] T get() noexcept {
    T value{};
    take(std::as_writable_bytes(std::span<T, 1>(&value, 1)));
    return value;
  }
  template <std::size_t N>
  [[nodiscard]] std::array<std::byte, N> get_bytes() noexcept {
    std::array<std::byte, N> value{};
    take(value);
    return value;
  }
  /// The next `count` bytes where they lie; empty when there are fewer.
  [[nodiscard]] std::span<const std::byte> view(std::uint64_t count) noexcept {
    if (!ok_ || count > in_.size() - at_) {
      ok_ = false;
      return {};
    }
    const auto bytes = in_.subspan(at_, static_cast<std::size_t>(count));
    at_ += bytes.size();
    return bytes;
  }
  void skip(std::size_t count) noexcept { static_cast<void>(view(count)); }
  [[nodiscard]] std::size_t position() const noexcept { return at_; }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return in_.size() - at_; }

 private:
  void take(std::span<std::byte> out) noexcept {
    if (!ok_ || out.size() > in_.size() - at_) {
      ok_ = false;
      return;
    }
    if (!out.empty()) std::memcpy(out.data(), in_.data() + at_, out.size());
    at_ += out.size();
  }

  std::span<const std::byte> in_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace imex
