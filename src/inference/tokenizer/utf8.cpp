#include "utf8.hpp"

#include <algorithm>
#include <array>

namespace imex::inference {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

constexpr unsigned byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

/// What may follow a first byte (Unicode, table 3-7): length, and the range of the second byte.
struct Lead {
  std::size_t length;  ///< 0: never a first byte
  unsigned low, high;
};

constexpr Lead lead_of(unsigned byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

/// How many bytes at the start of `text` are the start of some character: at most its length.
std::size_t well_formed_prefix(std::string_view text, const Lead& lead) noexcept {
  std::size_t good = 1;
  while (good < lead.length && good < text.size()) {
    const unsigned byte = byte_at(text, good);
    const unsigned low = good == 1 ? lead.low : 0x80;
    const unsigned high = good == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) break;
    ++good;
  }
  return good;
}

}  // namespace

Character first_character(std::string_view text) noexcept {
  if (text.empty()) return {};
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.length == 0 || well_formed_prefix(text, lead) != lead.length) return {};
  char32_t code = first & (0x7fU >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) code = code << 6U | (byte_at(text, i) & 0x3fU);
  return {code, lead.length};
}

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    if (character.bytes == 0) return at;
    at += character.bytes;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6U);
    put(0x80 | (code & 0x3fU));
  } else if (code < 0x1'0000) {
    put(0xe0 | code >> 12U);
    put(0x80 | (code >> 6U & 0x3fU));
    put(0x80 | (code & 0x3fU));
  } else {
    put(0xf0 | code >> 18U);
    put(0x80 | (code >> 12U & 0x3fU));
    put(0x80 | (code >> 6U & 0x3fU));
    put(0x80 | (code & 0x3fU));
  }
}

void drain_characters(std::string& pending, std::string& out) {
  std::size_t at = 0;
  while (at < pending.size()) {
    const auto rest = std::string_view(pending).substr(at);
    const Lead lead = lead_of(byte_at(rest, 0));
    const std::size_t good = well_formed_prefix(rest, lead);
    if (lead.length != 0 && good == lead.length) {
      out += rest.substr(0, good);
    } else if (lead.length != 0 && good == rest.size()) {
      break;
    } else {
      out += kReplacement;
    }
    at += good;
  }
  pending.erase(0, at);
}

}  // namespace imex::inference
