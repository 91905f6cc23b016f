#include <algorithm>

#include <fmt/format.h>

#include "base/units.hpp"
#include "base/version.hpp"
#include "bench/exchange.hpp"
#include "commands.hpp"

namespace imex::cli {
namespace {

Json exchange_json(const bench::ExchangeRow& row, const bench::ExchangeOptions& options,
                   const bench::ExchangeReport& report) {
  return Json{{"operation", "all_reduce"},
              {"ranks", options.ranks},
              {"backend", "host"},
              {"algorithm", algorithm_name(row.algorithm)},
              {"dtype", data_type_name(options.type)},
              {"op", reduce_op_name(options.op)},
              {"buffers", options.registered ? "registered" : "private"},
              {"in_place", options.in_place},
              {"bytes", row.bytes},
              {"median_us", row.time.median_us},
              {"mad_us", row.time.mad_us},
              {"min_us", row.time.min_us},
              {"max_us", row.time.max_us},
              {"p99_us", row.time.p99_us},
              {"n", row.time.n},
              {"algbw_gb_s", row.algbw_gb_s},
              {"busbw_gb_s", row.busbw_gb_s},
              {"limit_us", row.limit_us},
              {"share_of_limit", row.limit_us / row.time.median_us},
              {"wrong", row.wrong},
              {"checked", true},
              {"pages", report.pages},
              {"core_distance", row.distance},
              {"hop_ns", row.hop_ns},
              {"line_ns", row.line_ns},
              {"window_bytes", report.window_bytes},
              {"cpu", bench::cpu_name()},
              {"commit", build_info().git},
              {"build_type", build_info().build_type}};
}

template <class T>
Result<T> named(std::optional<T> found, std::string_view what, const std::string& text) {
  if (found) return *found;
  return fail(Errc::kInvalidArgument, fmt::format("{} '{}' is not known", what, text));
}

Result<bench::ExchangeOptions> exchange_options(const BenchExchangeOptions& options) {
  bench::ExchangeOptions measured;
  measured.ranks = options.ranks;
  measured.in_place = options.in_place;
  measured.iterations = options.iterations;
  measured.seconds = std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1000));
  IMEX_TRY(measured.type, named(data_type_from_name(options.dtype), "type", options.dtype));
  IMEX_TRY(measured.op, named(reduce_op_from_name(options.op), "operation", options.op));
  IMEX_TRY(measured.algorithm,
           named(algorithm_from_name(options.algorithm), "algorithm", options.algorithm));
  measured.registered = options.buffers == "registered";
  for (const std::string& text : options.sizes) {
    IMEX_TRY(const std::uint64_t bytes, parse_size(text));
    measured.sizes.push_back(bytes);
  }
  return measured;
}

}  // namespace

Result<void> bench_all_reduce(const Global& global, const BenchExchangeOptions& options) {
  IMEX_TRY(const auto measured, exchange_options(options));
  Progress progress(measured.sizes.size(), global.quiet);
  IMEX_TRY(const auto report, bench::measure_all_reduce(measured, [&](std::uint64_t bytes) {
             progress.step(format_size(bytes));
           }));
  Table table({"SIZE", "COUNT", "TYPE", "OP", "TIME_US", "P99_US", "ALGBW", "BUSBW", "WRONG",
               "ALGORITHM", "OF_LIMIT", "DISTANCE"});
  std::vector<Json> json;
  for (const auto& row : report.rows) {
    table.add({fmt::format("{}", row.bytes),
               fmt::format("{}", row.bytes / element_bytes(measured.type)),
               std::string(data_type_name(measured.type)), std::string(reduce_op_name(measured.op)),
               fmt::format("{:.3f}", row.time.median_us), fmt::format("{:.3f}", row.time.p99_us),
               fmt::format("{:.2f}", row.algbw_gb_s), fmt::format("{:.2f}", row.busbw_gb_s),
               fmt::format("{}", row.wrong), std::string(algorithm_name(row.algorithm)),
               fmt::format("{:.0f}%", 100 * row.limit_us / row.time.median_us), row.distance});
    json.push_back(exchange_json(row, measured, report));
  }
  std::string text = render_list(global.format, "results", json, table);
  if (options.explain && global.format == Format::kTable) text += report.explanation;
  return print(text);
}

}  // namespace imex::cli
