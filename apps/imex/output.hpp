/// What every command prints with: tables, JSON, progress, errors (cli.md section 1).
///
/// Results go to standard output, everything else to standard error. The shape never depends on
/// whether standard output is a terminal; only progress and colour do.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace imex::cli {

/// Keys stay in the order in which they were added.
using Json = nlohmann::ordered_json;

enum class Format : std::uint8_t { kTable, kJson, kJsonLines };

/// Exit status of every command.
inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2;

/// Columns as wide as their widest cell; numbers (cells of digits, sign and point) to the right.
/// Cells may come from anywhere: what could steer the terminal is shown escaped.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  /// Missing cells are empty; more cells than columns are our own mistake.
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string render() const;
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns that a terminal needs for UTF-8 text: code points, not bytes.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;

/// A list as a table, as one JSON object {name: [...]}, or as one JSON object per line.
[[nodiscard]] std::string render_list(Format format, std::string_view name,
                                      const std::vector<Json>& rows, const Table& table);

/// `text` and a newline where there is none, to standard output. Errors: kUnavailable (closed pipe,
/// full disk).
[[nodiscard]] Result<void> print(std::string_view text);

/// The error as one paragraph on standard error, escaped as cells of a table are, and, with JSON
/// formats, as an object on standard output. Returns the exit status.
int report(const Error& error, Format format);
[[nodiscard]] Json error_json(const Error& error);

/// Steps of a long command: a bar with rate and estimate on a terminal, one line per step
/// otherwise, nothing when quiet. Not thread-safe.
class Progress {
 public:
  Progress(std::size_t steps, bool quiet, std::FILE* out = stderr);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  ///< clears the bar

  void step(std::string_view what);  ///< `what` begins; the step before it is done
  /// `what` has done so many of `total` bytes (0: not known). A terminal gets a bar each time,
  /// other outputs a line when `what` is new.
  void amount(std::string_view what, std::uint64_t done, std::uint64_t total);

  /// The bar for `done` of `steps`, without control characters: "[####    ] 2/4 what, about 3 s
  /// left".
  [[nodiscard]] static std::string bar(std::size_t done, std::size_t steps, std::string_view what,
                                       std::chrono::nanoseconds elapsed);
  /// "[####    ] 12 MiB of 24 MiB what, 3 MiB/s, about 4 s left"; "what" if the total is 0.
  [[nodiscard]] static std::string amount_bar(std::uint64_t done, std::uint64_t total,
                                              std::string_view what,
                                              std::chrono::nanoseconds elapsed);

 private:
  std::size_t steps_, done_ = 0;
  bool quiet_, terminal_;
  std::FILE* out_;
  std::string what_;  ///< of the last amount()
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace imex::cli
