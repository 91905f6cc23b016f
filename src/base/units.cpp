#include "base/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace imex {

namespace {

struct Suffix {
  std::string_view text;
  std::uint64_t factor;
};

constexpr std::uint64_t kKi = 1024;
constexpr std::array<Suffix, 15> kSizes = {{{"", 1},
                                            {"B", 1},
                                            {"K", kKi},
                                            {"KiB", kKi},
                                            {"KB", 1'000},
                                            {"M", kKi* kKi},
                                            {"MiB", kKi* kKi},
                                            {"MB", 1'000'000},
                                            {"G", kKi* kKi* kKi},
                                            {"GiB", kKi* kKi* kKi},
                                            {"GB", 1'000'000'000},
                                            {"T", kKi* kKi* kKi* kKi},
                                            {"TiB", kKi* kKi* kKi* kKi},
                                            {"TB", 1'000'000'000'000},
                                            {"k", kKi}}};
constexpr std::array<Suffix, 7> kDurations = {{{"", 1'000'000'000},
                                               {"ns", 1},
                                               {"us", 1'000},
                                               {"ms", 1'000'000},
                                               {"s", 1'000'000'000},
                                               {"m", 60'000'000'000},
                                               {"h", 3'600'000'000'000}}};

constexpr std::size_t kDecimalsMax = 6;  // the largest factor times 10^6 fits 64 bits

/// Digits, and up to six decimals behind a point.
struct Decimal {
  std::uint64_t whole = 0, fraction = 0, fraction_scale = 1;
};

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Takes a number off the front of `text`.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  const char* const end = text.data() + text.size();
  const auto [point, error] = std::from_chars(text.data(), end, number.whole);
  if (error != std::errc{}) return std::nullopt;
  text = std::string_view(point, static_cast<std::size_t>(end - point));
  if (text.empty() || text.front() != '.') return number;
  text.remove_prefix(1);
  std::size_t decimals = 0;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1)) {
    if (++decimals > kDecimalsMax) return std::nullopt;
    number.fraction = number.fraction * 10 + static_cast<std::uint64_t>(text.front() - '0');
    number.fraction_scale *= 10;
  }
  return decimals == 0 ? std::nullopt : std::optional(number);
}

/// A number of base units (bytes, nanoseconds); rounded where it is not whole.
struct Quantity {
  std::uint64_t units = 0;
  bool whole = true;
};

/// number, suffix -> number x factor, in integers: a double is exact only up to 2^53. `what` and
/// `form` make the error.
template <std::size_t N>
Result<Quantity> parse_quantity(std::string_view text, const std::array<Suffix, N>& suffixes,
                                std::string_view what, std::string_view form) {
  std::string_view rest = text;
  const auto number = take_decimal(rest);
  const auto suffix = std::find_if(suffixes.begin(), suffixes.end(),
                                   [&](const Suffix& s) { return s.text == rest; });
  if (!number || suffix == suffixes.end()) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is no {}", text, what),
                fmt::format("write it as {}", form));
  }
  const std::uint64_t scaled = number->fraction * suffix->factor;
  const std::uint64_t part = (scaled + number->fraction_scale / 2) / number->fraction_scale;
  constexpr std::uint64_t kLimit = std::numeric_limits<std::int64_t>::max();
  if (number->whole > (kLimit - part) / suffix->factor) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is too large a {}", text, what));
  }
  return Quantity{number->whole * suffix->factor + part, scaled % number->fraction_scale == 0};
}

std::string trimmed(double value, std::string_view unit) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return fmt::format("{} {}", text, unit);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  IMEX_TRY(const Quantity bytes, parse_quantity(text, kSizes, "size", "64, 4KiB, 1MiB or 2G"));
  if (!bytes.whole) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is no whole number of bytes", text));
  }
  return bytes.units;
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return trimmed(value, kUnits[unit]);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  IMEX_TRY(const Quantity ns, parse_quantity(text, kDurations, "duration", "250ms, 30s or 2m"));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ns.units));
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const auto ns = static_cast<double>(duration.count());
  if (std::abs(ns) < 1e3) return trimmed(ns, "ns");
  if (std::abs(ns) < 1e6) return trimmed(ns / 1e3, "us");
  if (std::abs(ns) < 1e9) return trimmed(ns / 1e6, "ms");
  return trimmed(ns / 1e9, "s");
}

Result<std::int64_t> parse_integer(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}' is no whole number from {} to {}", text, low, high));
  }
  return value;
}

}  // namespace imex
