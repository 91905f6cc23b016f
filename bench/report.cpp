#include "bench/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::bench {
namespace {

constexpr double kNsPerUs = 1e3;

/// Median of sorted values.
double median_of(const Samples& sorted) {
  const std::size_t half = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return static_cast<double>(sorted[half]);
  return (static_cast<double>(sorted[half - 1]) + static_cast<double>(sorted[half])) / 2;
}

}  // namespace

Summary summarize(Samples samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  Summary summary;
  const double median = median_of(samples);
  summary.n = samples.size();
  summary.median_us = median / kNsPerUs;
  summary.min_us = static_cast<double>(samples.front()) / kNsPerUs;
  summary.max_us = static_cast<double>(samples.back()) / kNsPerUs;
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(samples.size())));
  summary.p99_us = static_cast<double>(samples[rank - 1]) / kNsPerUs;
  for (auto& sample : samples) {
    sample = static_cast<std::int64_t>(std::abs(static_cast<double>(sample) - median));
  }
  std::sort(samples.begin(), samples.end());
  summary.mad_us = median_of(samples) / kNsPerUs;
  return summary;
}

std::string cpu_name() {
  std::string name = "unknown processor";
  if (const auto text = os::read_file("/proc/cpuinfo"); text) {
    const auto at = text->find("model name");
    const auto colon = text->find(": ", at);
    if (at != std::string::npos && colon != std::string::npos) {
      name = text->substr(colon + 2, text->find('\n', colon) - colon - 2);
    }
  }
  return fmt::format("{}, {} cores usable", name, os::usable_cores());
}

}  // namespace imex::bench
