/// What splitting and normalising need to know of characters, from a generated table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace imex::inference {

/// The classes that the patterns of tokenizers tell apart.
enum class CharClass : std::uint8_t {
  kOther,
  kSpace,        ///< White_Space
  kNumber,       ///< Nd, Nl, No
  kUpper,        ///< Lu, Lt
  kLower,        ///< Ll
  kOtherLetter,  ///< Lm, Lo
  kMark,         ///< Mn, Mc, Me
};
[[nodiscard]] CharClass class_of(char32_t code) noexcept;

[[nodiscard]] constexpr bool is_letter(CharClass c) noexcept {
  return c == CharClass::kUpper || c == CharClass::kLower || c == CharClass::kOtherLetter;
}

/// Normalisation form C. `text` is valid UTF-8. Text below U+0300 is returned as it is.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace imex::inference
