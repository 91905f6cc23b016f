/// The measurements of `imex bench all-reduce` and the other operations: ranks are pinned
/// processes, a sample is the slowest rank's time from one agreed tick of the clock, and each rank
/// rewrites its vector, untimed, before every call (the rule: exchange.md 8.1).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <imex/allocation.hpp>
#include <imex/communicator.hpp>

#include "base/result.hpp"
#include "bench/operation.hpp"
#include "bench/report.hpp"

namespace imex::bench {

inline constexpr std::uint32_t kRanksOfBench = 72;
inline constexpr std::uint32_t kIterationsMax = 1'000'000;  ///< per size, also by `seconds`

struct ExchangeOptions {
  Operation operation = Operation::kAllReduce;
  std::uint32_t ranks = 2;
  std::vector<std::uint64_t> sizes;  ///< bytes, see Extent; one 0 for a barrier
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool registered = false;
  bool in_place = true;  ///< as facts_of(operation).placing allows
  Pages pages = Pages::kAuto;
  Algorithm algorithm = Algorithm::kAuto;
  std::uint32_t iterations = 0;  ///< per size; 0: as many as fit `seconds`, at least 20
  std::chrono::milliseconds seconds{300};
  std::string channel;       ///< ranks meet through the daemon of this channel; empty: directly
  bool check_every = false;  ///< compare the result of every timed call, not of the first and last
};

/// One size.
struct ExchangeRow {
  std::uint64_t bytes = 0;
  std::string_view algorithm;  ///< that the timed calls took; "none" where there is no choice
  Summary time;
  double limit_us = 0;  ///< floor.hpp
  double algbw_gb_s = 0, busbw_gb_s = 0;
  std::string_view distance;  ///< "near", "far", "hyperthreads", "moved", "shared core"
  double round_trip_ns[2]{};  ///< of a line between ranks 0 and 1, before and after the samples
  double line_ns = 0;         ///< of one line that is read and written by one, then by the other
  std::uint64_t compared = 0, wrong = 0;  ///< elements, of all ranks
  std::string first_wrong;                ///< "rank 1, element 17"
};

struct ExchangeReport {
  std::vector<ExchangeRow> rows;
  std::string explanation;  ///< costs of the floor; for all-reduce those of the tuner
  std::size_t window_bytes = 0;
  std::string_view pages;  ///< what the vectors really lie on: "small", "huge", "mixed"
};

/// `progress` is called before each size. Starts a process for each further rank; they have ended
/// when this returns. The caller is rank 0 and has no other threads. Errors: kInvalidArgument
/// (options), those of the communicator, kPeerLost.
[[nodiscard]] Result<ExchangeReport> measure_exchange(
    const ExchangeOptions& options, const std::function<void(std::uint64_t bytes)>& progress);

/// kOk, or which rows had wrong results. Errors: kDataLoss.
[[nodiscard]] Result<void> check_results(const ExchangeOptions& options,
                                         const ExchangeReport& report);

}  // namespace imex::bench
