#include "base64url.hpp"

#include <array>
#include <cstdint>

namespace imex::jwt {

namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::uint8_t kNoLetter = 64;

constexpr std::array<std::uint8_t, 256> kValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoLetter);
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}();

}  // namespace

std::string base64url(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : bytes) {
    bits = bits << 8U | static_cast<unsigned char>(c);
    for (held += 8; held >= 6; held -= 6) out.push_back(kLetters[bits >> (held - 6) & 63U]);
  }
  if (held > 0) out.push_back(kLetters[bits << (6 - held) & 63U]);
  return out;
}

Result<std::string> from_base64url(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const std::uint8_t value = kValues[static_cast<unsigned char>(c)];
    if (value == kNoLetter) return fail(Errc::kInvalidArgument, "not base64url");
    bits = bits << 6U | value;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 0xffU));
  }
  const bool whole = held < 6 && (bits & ((1U << held) - 1U)) == 0;
  if (!whole) return fail(Errc::kInvalidArgument, "not base64url: odd length or trailing bits");
  return out;
}

}  // namespace imex::jwt
