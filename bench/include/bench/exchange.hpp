/// The measurements of `imex bench all-reduce`: ranks are pinned processes, a sample is the slowest
/// rank's time from one agreed tick of the clock, and each rank rewrites its vector, untimed,
/// before every call (docs of the rule: exchange.md 8.1).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <imex/communicator.hpp>

#include "base/result.hpp"
#include "bench/report.hpp"

namespace imex::bench {

struct ExchangeOptions {
  std::uint32_t ranks = 2;
  std::vector<std::uint64_t> sizes;  ///< of one rank's vector, in bytes
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool registered = false;
  bool in_place = true;
  Algorithm algorithm = Algorithm::kAuto;
  std::uint32_t iterations = 0;  ///< per size; 0: as many as fit `seconds`, at least 100
  std::chrono::milliseconds seconds{300};
};

/// One size.
struct ExchangeRow {
  std::uint64_t bytes = 0;
  Algorithm algorithm = Algorithm::kAuto;
  Summary time;
  double limit_us = 0;  ///< lines that must move, and one hand-off, at the costs of this run
  double hop_ns = 0;    ///< of this run
  double line_ns = 0;
  std::string distance;  ///< "near", "far", "hyperthreads", "shared core", or "moved"
  double algbw_gb_s = 0, busbw_gb_s = 0;
  std::uint64_t wrong = 0;  ///< elements
};

struct ExchangeReport {
  std::vector<ExchangeRow> rows;
  std::string explanation;  ///< of the tuner
  std::size_t window_bytes = 0;
  std::string pages;
};

/// `progress` is called before each size.
[[nodiscard]] Result<ExchangeReport> measure_all_reduce(
    const ExchangeOptions& options, const std::function<void(std::uint64_t bytes)>& progress);

}  // namespace imex::bench
