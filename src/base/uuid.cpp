#include "base/uuid.hpp"

#include <fmt/format.h>

namespace imex {

namespace {
constexpr int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

std::string Uuid::to_string() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto value = std::to_integer<unsigned>(bytes[i]);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

Result<Uuid> Uuid::parse(std::string_view text) {
  const bool dashed = text.size() == 36;
  if (!dashed && text.size() != 32) {
    return fail(
        Errc::kInvalidArgument,
        fmt::format("'{}' is no UUID: 32 hexadecimal digits, with or without dashes", text));
  }
  Uuid id;
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (dashed && (i == 8 || i == 13 || i == 18 || i == 23)) {
      if (text[i] == '-') continue;
      return fail(Errc::kInvalidArgument, fmt::format("'{}' is no UUID: dash expected", text));
    }
    const int value = hex_value(text[i]);
    if (value < 0) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("'{}' is no UUID: '{}' is no hexadecimal digit", text, text[i]));
    }
    id.bytes[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? value << 4 : value);
    ++digits;
  }
  return id;
}

}  // namespace imex
