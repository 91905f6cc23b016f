/// The measurements of `imex bench memory`. Each starts what it needs, measures, verifies, and
/// takes all down; floors and what is held against them are interleaved in one run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "bench/report.hpp"

namespace imex::bench {

struct MemoryOptions {
  std::string imexd;  ///< program to start
  /// Measure "share" through these channels, of one daemon or of two; empty: private daemons.
  std::vector<std::string> channels;
  double scale = 1.0;  ///< of all sample counts
  std::chrono::seconds idle{10};

  [[nodiscard]] std::size_t scaled(std::size_t count) const noexcept {
    return std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(count) * scale));
  }
};

/// Export + import + map of 2 MiB through one daemon and through two, against one hop of a
/// descriptor plus an mmap that populates nothing.
[[nodiscard]] Result<std::vector<Row>> measure_share(const MemoryOptions& options);
/// A signal one way between two pinned processes, against a bare flag. Errors: kUnsupported on one
/// core.
[[nodiscard]] Result<std::vector<Row>> measure_signal(const MemoryOptions& options);
/// SIGKILL of a peer until a survivor's wait returns kPeerLost with its rank; with 0 and 64 MiB of
/// private touched memory.
[[nodiscard]] Result<std::vector<Row>> measure_loss(const MemoryOptions& options);
/// Start of a daemon until READY; 18 daemons from the last start until all are UP.
[[nodiscard]] Result<std::vector<Row>> measure_start(const MemoryOptions& options);
/// Resident memory and processor share of an idle daemon, alone and with 17 peers.
[[nodiscard]] Result<std::vector<Row>> measure_idle(const MemoryOptions& options);
/// Export + import with 256 processes and 10,000 handles on the daemon, against an empty daemon.
[[nodiscard]] Result<std::vector<Row>> measure_load(const MemoryOptions& options);

struct Measurement {
  std::string_view name;
  std::string_view title;
  bool needs_daemon;
  Result<std::vector<Row>> (*run)(const MemoryOptions&);
};
/// In the order in which they run; names are those of `--only`.
[[nodiscard]] const std::vector<Measurement>& memory_measurements();

}  // namespace imex::bench
