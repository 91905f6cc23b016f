#include "strings.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>

#include <fmt/format.h>

namespace imex::inference {

namespace {

constexpr std::string_view kWhite = " \t\n\r\v\f";

char to_upper(char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char to_lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) ++end;
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

std::string strip(std::string_view text, std::string_view chars, bool left, bool right) {
  if (chars.empty()) chars = kWhite;
  if (left) text.remove_prefix(std::min(text.find_first_not_of(chars), text.size()));
  if (right) text = text.substr(0, text.find_last_not_of(chars) + 1);
  return std::string(text);
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

std::optional<std::int64_t> parse_integer_text(std::string_view text) {
  const std::string bare = strip(text, {}, true, true);
  std::int64_t value = 0;
  const auto end = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  if (end.ec != std::errc{} || end.ptr != bare.data() + bare.size()) return std::nullopt;
  return value;
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
