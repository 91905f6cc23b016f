// From options to rows: starts the ranks, lets them measure each size, reckons what rank 0 saw.

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.hpp"
#include "bench/exchange.hpp"
#include "bench/worker.hpp"
#include "exchange/bench_cores.hpp"
#include "exchange/participant.hpp"
#include "exchange/record_folder.hpp"
#include "peers/placement.h"

namespace imex::bench {
namespace {

/// Of lines whose cost is measured: larger vectors lie in memory as this one does.
constexpr std::uint64_t kBlockBytesMax = std::uint64_t{64} << 20U;

Result<void> check_sizes(const ExchangeOptions& options) {
  const std::uint64_t unit = granularity(options.operation, options.type, options.ranks);
  if (options.sizes.empty()) return fail(Errc::kInvalidArgument, "--sizes: none given");
  for (const std::uint64_t bytes : options.sizes) {
    if (unit == 0 ? bytes == 0 : bytes != 0 && bytes % unit == 0) continue;
    if (unit == 0) return fail(Errc::kInternal, "a barrier moves no bytes");
    return fail(Errc::kInvalidArgument,
                fmt::format("--sizes {}: {} of {} with {} ranks takes multiples of {} bytes", bytes,
                            facts_of(options.operation).name, data_type_name(options.type),
                            options.ranks, unit),
                fmt::format("for example {}", (bytes / unit + 1) * unit));
  }
  return {};
}

Result<void> check_options(const ExchangeOptions& options) {
  const OperationFacts& facts = facts_of(options.operation);
  if (options.ranks < 2 || options.ranks > kRanksOfBench) {
    return fail(Errc::kInvalidArgument,
                fmt::format("--ranks {}: 2 to {} wanted", options.ranks, kRanksOfBench));
  }
  if (facts.placing == Placing::kApart && options.in_place) {
    return fail(Errc::kInvalidArgument,
                fmt::format("--in-place: {} has no form in place", facts.name),
                "leave it out, or use --out-of-place");
  }
  if (facts.placing == Placing::kInPlace && !options.in_place) {
    return fail(Errc::kInvalidArgument,
                fmt::format("--out-of-place: {} has one buffer only", facts.name),
                "leave it out, or use --in-place");
  }
  return check_sizes(options);
}

std::string_view distance_of(const SizeOutcome& outcome, std::size_t cores) {
  if (cores < 2) return "shared core";
  return core_distance(outcome.round_trip_ns[0], outcome.round_trip_ns[1]);
}

ExchangeRow row_of(const ExchangeOptions& options, std::uint64_t bytes, SizeOutcome outcome,
                   std::size_t cores) {
  ExchangeRow row;
  row.bytes = bytes;
  row.algorithm = outcome.algorithm;
  row.distance = distance_of(outcome, cores);
  std::ranges::copy(outcome.round_trip_ns, row.round_trip_ns);
  row.line_ns = outcome.costs.swapped;
  row.compared = outcome.tally.compared;
  row.wrong = outcome.tally.wrong;
  if (row.wrong != 0) {
    row.first_wrong =
        fmt::format("rank {}, element {}", outcome.wrong_rank, outcome.tally.first_wrong);
  }
  row.time = summarize(std::move(outcome.samples));
  const Moves moves = moves_of(options.operation, bytes, options.ranks, options.registered);
  row.limit_us = floor_us(moves, outcome.costs);
  row.algbw_gb_s = static_cast<double>(bytes) / (row.time.median_us * 1000);
  row.busbw_gb_s = row.algbw_gb_s * bus_factor(options.operation, options.ranks);
  return row;
}

std::string explain(const ExchangeOptions& options, const Communicator& comm,
                    const std::vector<ExchangeRow>& rows) {
  std::string text;
  for (const ExchangeRow& row : rows) {
    const Moves moves = moves_of(options.operation, row.bytes, options.ranks, options.registered);
    text += fmt::format(
        "{}: floor {:.3f} us: {:.0f} hand-off of {:.0f} ns, lines {:.0f} swapped, {:.0f} read, "
        "{:.0f} written; {} elements compared\n",
        format_size(row.bytes), row.limit_us, moves.hand_offs,
        std::min(row.round_trip_ns[0], row.round_trip_ns[1]) / 2, moves.swapped, moves.read,
        moves.written, row.compared);
  }
  if (options.operation == Operation::kAllReduce) text += comm.explain(options.registered);
  return text;
}

/// What one rank does; `report` and `progress` are rank 0's.
Result<void> play(const TickBoard& board, const ExchangeOptions& options, std::uint32_t rank,
                  std::size_t cores, const std::function<void(std::uint64_t)>& progress,
                  ExchangeReport* report) {
  Participant self(board, options, rank, cores);
  const auto run = [&]() -> Result<void> {
    IMEX_CHECK_OK(self.join());
    for (const std::uint64_t bytes : options.sizes) {
      if (report != nullptr) progress(bytes);
      IMEX_TRY(auto outcome, self.measure(bytes));
      if (report != nullptr) {
        report->rows.push_back(row_of(options, bytes, std::move(outcome), cores));
      }
    }
    IMEX_TRY(const PageKind kind, self.page_kind());
    if (report != nullptr) {
      report->pages = page_kind_name(kind);
      report->window_bytes = self.comm().window_bytes();
      report->explanation = explain(options, self.comm(), report->rows);
    }
    return self.ruler().meet();
  };
  auto done = run();
  if (!done) self.ruler().give_up();
  return done;
}

}  // namespace

Result<ExchangeReport> measure_exchange(const ExchangeOptions& options,
                                        const std::function<void(std::uint64_t)>& progress) {
  IMEX_CHECK_OK(check_options(options));
  const std::uint64_t largest = *std::ranges::max_element(options.sizes);
  IMEX_TRY(
      const TickBoard board,
      TickBoard::create(options.ranks, std::clamp(largest, std::uint64_t{4096}, kBlockBytesMax)));
  IMEX_TRY(const auto recordings, RecordFolder::create());
  const std::vector<unsigned> cores = bench_cores();
  std::vector<Worker> workers;
  // This process is rank 0; it makes threads only after the others were forked.
  for (std::uint32_t rank = 1; rank != options.ranks; ++rank) {
    IMEX_TRY(auto worker, Worker::start(
                              [&, rank](Line&) {
                                return play(board, options, rank, cores.size(), progress, nullptr);
                              },
                              cores[rank % cores.size()]));
    workers.push_back(std::move(worker));
  }
  IMEX_TRY(const Pinned pinned, Pinned::to(cores[0]));
  ExchangeReport report;
  IMEX_CHECK_OK(play(board, options, 0, cores.size(), progress, &report));
  return report;
}

Result<void> check_results(const ExchangeOptions& options, const ExchangeReport& report) {
  std::vector<std::string> wrong;
  for (const ExchangeRow& row : report.rows) {
    if (row.wrong == 0) continue;
    wrong.push_back(fmt::format("{}: {} of {} elements, first at {}", format_size(row.bytes),
                                row.wrong, row.compared, row.first_wrong));
  }
  if (wrong.empty()) return {};
  return fail(Errc::kDataLoss,
              fmt::format("wrong results of {}: {}", facts_of(options.operation).name,
                          fmt::join(wrong, "; ")),
              "times of wrong results mean nothing; please report this with the command line");
}

}  // namespace imex::bench
