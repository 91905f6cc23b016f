#include "strings.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

namespace imex::inference {

namespace {

/// str.isspace of Python 3: Unicode's bidirectional types WS, B and S, and category Zs.
constexpr bool is_white(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

constexpr bool continues(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80;
}

char to_upper(char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char to_lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string_view character_at(std::string_view text, std::size_t at) noexcept {
  std::size_t end = at + 1;
  while (end < text.size() && continues(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string_view last_character(std::string_view text) noexcept {
  std::size_t at = text.size() - 1;
  while (at != 0 && continues(text[at])) --at;
  return text.substr(at);
}

char32_t code_point(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character.front());
  if (first < 0x80) return first;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || character.size() != bytes) return 0xfffd;
  char32_t point = first & (0x7fU >> bytes);
  for (const char byte : character.substr(1)) {
    point = point << 6U | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  return point;
}

std::size_t count_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).size()) ++count;
  return count;
}

std::size_t leading_space(std::string_view text) noexcept {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const std::string_view character = character_at(text, bytes);
    if (!is_white(code_point(character))) break;
    bytes += character.size();
  }
  return bytes;
}

std::size_t trailing_space(std::string_view text) noexcept {
  const std::size_t all = text.size();
  while (!text.empty()) {
    const std::string_view character = last_character(text);
    if (!is_white(code_point(character))) break;
    text.remove_suffix(character.size());
  }
  return all - text.size();
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, bool left,
                       bool right) noexcept {
  if (!chars) {
    if (left) text.remove_prefix(leading_space(text));
    if (right) text.remove_suffix(trailing_space(text));
    return text;
  }
  // A whole character of UTF-8 is found only where one begins.
  const auto given = [&](std::string_view one) { return chars->find(one) != chars->npos; };
  while (left && !text.empty() && given(character_at(text, 0))) {
    text.remove_prefix(character_at(text, 0).size());
  }
  while (right && !text.empty() && given(last_character(text))) {
    text.remove_suffix(last_character(text).size());
  }
  return text;
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) noexcept {
  if (from > text.size()) return std::string_view::npos;
  if (part.size() < 2) return text.find(part, from);
  // std::string_view::find takes the product of the sizes at worst, memmem their sum.
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), to_upper);
  return text;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), to_lower);
  return text;
}

std::string capitalize(std::string text) {
  text = lower(std::move(text));
  if (!text.empty()) text.front() = to_upper(text.front());
  return text;
}

std::string indent(std::string_view text, std::size_t width, bool first) {
  const std::string blanks(width, ' ');
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end != at && (at != 0 || first)) out += blanks;
    out += text.substr(at, end - at);
    if (end != text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string_view bare_number(std::string_view text) noexcept {
  text = strip(text, std::nullopt, true, true);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

Result<std::optional<std::int64_t>> parse_integer_text(std::string_view text) {
  const std::string_view bare = bare_number(text);
  std::int64_t value = 0;
  const auto end = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  if (end.ptr != bare.data() + bare.size() || bare.empty()) return std::nullopt;
  if (end.ec == std::errc::result_out_of_range) {
    return fail(Errc::kInvalidArgument, "a number that is too large");
  }
  return end.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

Result<std::int64_t> truncated(double number) {
  // 2^63 is a double, the largest int64_t is not.
  constexpr double kEnd = 9'223'372'036'854'775'808.0;
  if (number >= -kEnd && number < kEnd) return static_cast<std::int64_t>(number);
  return fail(Errc::kInvalidArgument, "a number that is too large");
}

Result<Value> format_time(std::string_view format, std::chrono::system_clock::time_point now) {
  constexpr std::string_view kDirectives = "aAbBdHIjmMpSyY%";
  for (std::size_t at = format.find('%'); at != std::string_view::npos;
       at = format.find('%', at + 2)) {
    if (at + 1 == format.size() || kDirectives.find(format[at + 1]) == std::string_view::npos) {
      return fail(Errc::kInvalidArgument, fmt::format("time format '{}'", format));
    }
  }
  if (format.empty() || format.size() > 256) return Value(std::string(format.substr(0, 0)));
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::string out(format.size() * 16, '\0');  // no directive above gives more
  out.resize(std::strftime(out.data(), out.size(), std::string(format).c_str(), &parts));
  return Value(std::move(out));
}

}  // namespace imex::inference
