/// Characters in bytes: strict UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace imex::inference {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: no valid character starts here
};

/// The character at the start of `text`.
[[nodiscard]] Character first_character(std::string_view text) noexcept;

/// Offset of the first byte that belongs to no character; npos if there is none.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text) noexcept;

void append_utf8(std::string& out, char32_t code);

/// Moves the whole characters of `pending` to the end of `out`; every maximal sequence of bytes
/// that can become none is one U+FFFD. Leaves the start of a character that more bytes may
/// complete.
void drain_characters(std::string& pending, std::string& out);

}  // namespace imex::inference
