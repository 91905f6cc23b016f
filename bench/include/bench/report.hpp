/// Numbers of a benchmark and what they are held against.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace imex::bench {

/// Samples of one quantity, in nanoseconds.
using Samples = std::vector<std::int64_t>;

struct Summary {
  double median_us = 0, mad_us = 0, min_us = 0, max_us = 0, p99_us = 0;
  std::uint64_t n = 0;
};
/// Median and median absolute deviation; p99 by nearest rank. No samples: all zero.
[[nodiscard]] Summary summarize(Samples samples);

/// What a figure is judged by: `value` must not exceed `limit`.
struct Mark {
  std::string text;  ///< "p50 within 3 times of the floor"
  double value = 0;
  double limit = 0;
  [[nodiscard]] bool met() const noexcept { return value <= limit; }
};

/// One line of a report.
struct Row {
  std::string operation;  ///< "export_import_map"
  std::string placement;  ///< "one daemon", "18 daemons"; empty: does not apply
  std::uint32_t ranks = 1;
  std::uint64_t bytes = 0;
  Summary time;
  std::optional<double> limit_us{};  ///< median of the limit measured in the same run
  std::vector<std::pair<std::string, double>> figures{};  ///< further ones, unit last: rss_bytes
  std::optional<Mark> mark{};
  bool checked = false;  ///< the data or the outcome of each sample was verified
  std::string pages{};   ///< "small", "huge", where memory is part of it
};

/// "AMD EPYC 9B14, 2 cores usable": names the machine in each line.
[[nodiscard]] std::string cpu_name();

}  // namespace imex::bench
