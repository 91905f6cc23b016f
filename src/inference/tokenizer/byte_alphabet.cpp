#include "byte_alphabet.hpp"

#include <array>

#include "utf8.hpp"

namespace imex::inference {

namespace {

constexpr std::size_t kLetters = 0x100 + 68;

constexpr bool printable(unsigned byte) noexcept {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/// Character -> byte; -1: not of the alphabet.
constexpr std::array<int, kLetters> kBytes = [] {
  std::array<int, kLetters> bytes{};
  bytes.fill(-1);
  std::size_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[printable(byte) ? byte : next++] = static_cast<int>(byte);
  }
  return bytes;
}();

constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    if (character.bytes == 0 || character.code >= kLetters || kBytes[character.code] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kBytes[character.code]);
    at += character.bytes;
  }
  return bytes;
}

std::string to_byte_alphabet(std::string_view bytes) {
  static constexpr std::array<char32_t, 256> kLetterOf = [] {
    std::array<char32_t, 256> letters{};
    for (char32_t letter = 0; letter < kLetters; ++letter) {
      if (kBytes[letter] >= 0) letters[static_cast<std::size_t>(kBytes[letter])] = letter;
    }
    return letters;
  }();
  std::string text;
  for (const char byte : bytes) append_utf8(text, kLetterOf[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<unsigned char> parse_byte_token(std::string_view text) noexcept {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

}  // namespace imex::inference
