#include "base/text.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace imex {

namespace {

struct Decoded {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: no character starts here
};

/// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  char32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x1'0000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10'ffff) return {};
  return {code, bytes};
}

/// Line and paragraph separators, and what overrides or isolates a direction.
bool reorders(char32_t code) noexcept {
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Decoded character = decode(text);
    const std::size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    const bool control = character.code < 0x20 || (character.code >= 0x7f && character.code < 0xa0);
    if (character.bytes == 1 && text[0] == '\n') {
      shown += "\\n";
    } else if (character.bytes == 1 && text[0] == '\t') {
      shown += "\\t";
    } else if (character.bytes == 0 || control) {
      for (const char byte : text.substr(0, bytes)) {
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else if (reorders(character.code)) {
      shown += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code));
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace imex
