#include "base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace imex {

namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array<Suffix, 15> kSizes = {{{"", 1},
                                            {"B", 1},
                                            {"K", kKi},
                                            {"KiB", kKi},
                                            {"KB", 1e3},
                                            {"M", kKi * kKi},
                                            {"MiB", kKi * kKi},
                                            {"MB", 1e6},
                                            {"G", kKi * kKi * kKi},
                                            {"GiB", kKi * kKi * kKi},
                                            {"GB", 1e9},
                                            {"T", kKi * kKi * kKi * kKi},
                                            {"TiB", kKi * kKi * kKi * kKi},
                                            {"TB", 1e12},
                                            {"k", kKi}}};
constexpr std::array<Suffix, 7> kDurations = {
    {{"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};

/// number, suffix -> number x factor; `what` and `form` make the error.
template <std::size_t N>
Result<double> parse_quantity(std::string_view text, const std::array<Suffix, N>& suffixes,
                              std::string_view what, std::string_view form) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number,
                                            std::chars_format::fixed);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc{} && number >= 0) {
    for (const Suffix& suffix : suffixes) {
      if (rest == suffix.text) return number * suffix.factor;
    }
  }
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is no {}", text, what),
              fmt::format("write it as {}", form));
}

std::string trimmed(double value, std::string_view unit) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return fmt::format("{} {}", text, unit);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  IMEX_TRY(const double bytes, parse_quantity(text, kSizes, "size", "64, 4KiB, 1MiB or 2G"));
  if (bytes >= 0x1p63 || bytes != std::floor(bytes)) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is no whole number of bytes", text));
  }
  return static_cast<std::uint64_t>(bytes);
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= kKi && unit + 1 < kUnits.size()) {
    value /= kKi;
    ++unit;
  }
  return trimmed(value, kUnits[unit]);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  IMEX_TRY(const double ns, parse_quantity(text, kDurations, "duration", "250ms, 30s or 2m"));
  if (ns >= 0x1p63) return fail(Errc::kInvalidArgument, fmt::format("'{}' is too long", text));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(ns)));
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
