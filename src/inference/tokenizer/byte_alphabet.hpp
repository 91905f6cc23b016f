/// GPT-2's spelling of bytes: each byte is one printable character, so that tokens of any bytes can
/// stand in JSON. Bytes 33-126, 161-172 and 174-255 are themselves, the other 68 follow from
/// U+0100.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace imex::inference {

/// The bytes that `text` spells; none if a character of it is not of the alphabet.
[[nodiscard]] std::optional<std::string> from_byte_alphabet(std::string_view text);

/// `bytes` in that spelling.
[[nodiscard]] std::string to_byte_alphabet(std::string_view bytes);

/// The byte of "<0x0A>"; none if `text` is not of that form.
[[nodiscard]] std::optional<unsigned char> parse_byte_token(std::string_view text) noexcept;

}  // namespace imex::inference
