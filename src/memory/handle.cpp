#include <fmt/format.h>
#include <imex/handle.hpp>

#include "base/result.hpp"

namespace imex {

namespace {

/// 0 to 15, or -1.
int digit_value(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::string Handle::to_hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte value : bytes) {
    text += kDigits[std::to_integer<unsigned>(value >> 4U)];
    text += kDigits[std::to_integer<unsigned>(value & std::byte{15})];
  }
  return text;
}

Result<Handle> Handle::from_hex(std::string_view text) {
  Handle handle;
  if (text.size() != handle.bytes.size() * 2) {
    return fail(Errc::kInvalidArgument,
                fmt::format("handle: {} hexadecimal digits wanted, {} characters found",
                            handle.bytes.size() * 2, text.size()));
  }
  for (std::size_t i = 0; i != handle.bytes.size(); ++i) {
    const int high = digit_value(text[2 * i]);
    const int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      // The text itself is a secret: name the place, not the digits.
      return fail(
          Errc::kInvalidArgument,
          fmt::format("handle: no hexadecimal digit at character {}", 2 * i + (high < 0 ? 0 : 1)));
    }
    handle.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return handle;
}

}  // namespace imex
