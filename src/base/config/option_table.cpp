#include "config/option_table.hpp"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/units.hpp"

namespace imex::config {

namespace {

struct Unit {
  std::uint64_t factor;
  std::string_view suffix;
};

/// In the largest unit of which it is a whole number.
template <std::size_t N>
std::string exact(std::uint64_t value, const std::array<Unit, N>& units_descending) {
  for (const Unit& unit : units_descending) {
    if (value != 0 && value % unit.factor == 0)
      return fmt::format("{}{}", value / unit.factor, unit.suffix);
  }
  return fmt::format("{}{}", value, units_descending.back().suffix);
}

constexpr std::array<Unit, 5> kSizeUnits = {{{std::uint64_t{1} << 40U, "TiB"},
                                             {std::uint64_t{1} << 30U, "GiB"},
                                             {std::uint64_t{1} << 20U, "MiB"},
                                             {std::uint64_t{1} << 10U, "KiB"},
                                             {1, "B"}}};
// No minutes and hours: the file's keys count in seconds, and so do their readers.
constexpr std::array<Unit, 4> kDurationUnits = {
    {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}, {1, "ns"}}};

/// A cell of a markdown table: no bars, no line breaks.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

}  // namespace

Result<bool> parse_bool(std::string_view text) {
  for (const std::string_view word : {"1", "true", "yes", "on"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"0", "false", "no", "off"}) {
    if (text == word) return false;
  }
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is neither 0 nor 1", text));
}

Result<std::int64_t> parse_integer_in(std::string_view text, IntegerRange range) {
  return parse_integer(text, range.low, range.high);
}

Result<std::uint64_t> parse_size_in(std::string_view text, SizeRange range) {
  if (range.high == UINT64_MAX && text == "unlimited") return UINT64_MAX;
  IMEX_TRY(const std::uint64_t bytes, parse_size(text));
  if (bytes >= range.low && bytes <= range.high) return bytes;
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is not {}", text, describe(range)));
}

Result<Nanos> parse_duration_in(std::string_view text, const DurationRange& range) {
  if (text == "-1" && !range.minus_one.empty()) return Nanos(-1);
  IMEX_TRY(const Nanos duration, parse_duration(text));
  if (duration >= range.low && duration <= range.high) return duration;
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is not {}", text, describe(range)));
}

std::string format_exact_size(std::uint64_t bytes, SizeRange range) {
  if (bytes == UINT64_MAX && range.high == UINT64_MAX) return "unlimited";
  return exact(bytes, kSizeUnits);
}

std::string format_exact_duration(Nanos duration) {
  if (duration == Nanos(-1)) return "-1";
  if (duration == Nanos(0)) return "0s";
  return exact(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::string describe(IntegerRange range) {
  constexpr IntegerRange kAny;
  if (range.low == kAny.low && range.high == kAny.high) return "whole number";
  if (range.high == kAny.high) return fmt::format("whole number from {}", range.low);
  if (range.low == kAny.low) return fmt::format("whole number up to {}", range.high);
  return fmt::format("{} to {}", range.low, range.high);
}

std::string describe(SizeRange range) {
  if (range.high == UINT64_MAX) {
    return range.low == 0
               ? "size or unlimited"
               : fmt::format("size from {}, or unlimited", format_exact_size(range.low, range));
  }
  return fmt::format("size from {} to {}", format_exact_size(range.low, range),
                     format_exact_size(range.high, range));
}

std::string describe(const DurationRange& range) {
  std::string text = "duration";
  if (range.high != Nanos::max()) {
    text += fmt::format(" from {} to {}", format_exact_duration(range.low),
                        format_exact_duration(range.high));
  } else if (range.low != Nanos(0)) {
    text += fmt::format(" from {}", format_exact_duration(range.low));
  }
  if (!range.minus_one.empty()) text += fmt::format(", or -1: {}", range.minus_one);
  return text;
}

Error not_one_of(std::string_view text, const std::string& words) {
  return Error{Errc::kInvalidArgument, fmt::format("'{}' is none of: {}", text, words)};
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string markdown_page(std::string_view title, std::string_view introduction,
                          const std::vector<OptionRow>& rows) {
  std::string page =
      fmt::format("# {}\n\n{}\n\n| Key | Values | Default | Meaning |\n|---|---|---|---|\n", title,
                  introduction);
  for (const OptionRow& row : rows) {
    const std::string shown =
        row.default_value.empty() ? "empty" : fmt::format("`{}`", cell(row.default_value));
    page += fmt::format("| `{}` | {} | {} | {} |\n", cell(row.key), cell(row.form), shown,
                        cell(row.help));
  }
  return page;
}

}  // namespace imex::config
