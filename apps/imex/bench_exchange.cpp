#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/units.hpp"
#include "base/version.hpp"
#include "bench/exchange.hpp"
#include "commands.hpp"

namespace imex::cli {
namespace {

constexpr std::array<std::uint64_t, 10> kSizes{8,        64,       512,       1 << 10, 4 << 10,
                                               16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20};

double share_of_limit(const bench::ExchangeRow& row) { return row.limit_us / row.time.median_us; }

/// The keys of cli.md section 4, in its order; beyond them one, and only when asked for.
Json exchange_json(const bench::ExchangeRow& row, const bench::ExchangeOptions& options,
                   const bench::ExchangeReport& report, bool explain) {
  const auto& facts = bench::facts_of(options.operation);
  Json json{{"operation", facts.name},
            {"ranks", options.ranks},
            {"backend", "host"},
            {"algorithm", row.algorithm},
            {"dtype", data_type_name(options.type)},
            {"buffers", options.registered ? "registered" : "private"},
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
            {"share_of_limit", share_of_limit(row)},
            {"checked", row.compared != 0 && row.wrong == 0},
            {"pages", report.pages},
            {"core_distance", row.distance},
            {"cpu", bench::cpu_name()},
            {"commit", build_info().git}};
  if (explain) {
    json["explain"] = Json{{"op", facts.reduces ? reduce_op_name(options.op) : "none"},
                           {"in_place", options.in_place},
                           {"channel", options.channel},
                           {"compared", row.compared},
                           {"wrong", row.wrong},
                           {"round_trip_ns", row.round_trip_ns},
                           {"line_ns", row.line_ns},
                           {"window_bytes", report.window_bytes},
                           {"build_type", build_info().build_type},
                           {"text", report.explanation}};
  }
  return json;
}

/// The columns of nccl-tests, then p99, the share of the limit, and what the figure was taken on.
Table exchange_table(const bench::ExchangeOptions& options, const bench::ExchangeReport& report) {
  const auto& facts = bench::facts_of(options.operation);
  Table table({"SIZE", "COUNT", "TYPE", "REDOP", "ROOT", "TIME_US", "ALGBW", "BUSBW", "WRONG",
               "P99_US", "OF_LIMIT", "ALGORITHM", "PAGES", "DISTANCE"});
  for (const auto& row : report.rows) {
    table.add({fmt::format("{}", row.bytes),
               fmt::format("{}", row.bytes / element_bytes(options.type)),
               std::string(data_type_name(options.type)),
               std::string(facts.reduces ? reduce_op_name(options.op) : "none"),
               facts.rooted ? "0" : "-1", fmt::format("{:.3f}", row.time.median_us),
               fmt::format("{:.2f}", row.algbw_gb_s), fmt::format("{:.2f}", row.busbw_gb_s),
               fmt::format("{}", row.wrong), fmt::format("{:.3f}", row.time.p99_us),
               fmt::format("{:.0f}%", 100 * share_of_limit(row)), std::string(row.algorithm),
               std::string(report.pages), std::string(row.distance)});
  }
  return table;
}

/// The parser has refused other names; what is left here are our own mistakes.
template <class T>
Result<T> known(std::optional<T> found, std::string_view option, const std::string& text) {
  if (found) return *found;
  return fail(Errc::kInvalidArgument, fmt::format("{} '{}' is not known", option, text));
}

/// Given sizes as they are; else the series, rounded up to what the operation takes.
Result<std::vector<std::uint64_t>> sizes_of(const std::vector<std::string>& given,
                                            const bench::ExchangeOptions& options) {
  std::vector<std::uint64_t> sizes;
  const std::uint64_t unit = bench::granularity(options.operation, options.type, options.ranks);
  if (unit == 0) return std::vector<std::uint64_t>{0};
  for (const std::string& text : given) {
    const auto bytes = parse_size(text);
    if (!bytes) {
      return fail(Errc::kInvalidArgument, fmt::format("--sizes: {}", bytes.error().message),
                  "for example --sizes 8,4KiB,1MiB");
    }
    sizes.push_back(*bytes);
  }
  if (!given.empty()) return sizes;
  for (const std::uint64_t bytes : kSizes) {
    const std::uint64_t whole = (bytes + unit - 1) / unit * unit;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
  }
  return sizes;
}

Pages pages_from_name(std::string_view name) {
  return name == "huge" ? Pages::kHuge : name == "small" ? Pages::kSmall : Pages::kAuto;
}

Result<bench::ExchangeOptions> exchange_options(std::string_view operation,
                                                const BenchExchangeOptions& options) {
  if (options.backend != "host") {
    return fail(Errc::kUnsupported,
                fmt::format("--backend {}: this build exchanges host memory only", options.backend),
                "measure with --backend host");
  }
  bench::ExchangeOptions measured;
  IMEX_TRY(measured.operation,
           known(bench::operation_from_name(operation), "operation", std::string(operation)));
  const auto& facts = bench::facts_of(measured.operation);
  measured.ranks = options.ranks;
  measured.in_place = options.in_place.value_or(facts.placing != bench::Placing::kApart);
  measured.iterations = options.iterations;
  measured.seconds = std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1000));
  measured.check_every = options.check;
  measured.channel = options.channel;
  measured.pages = pages_from_name(options.pages);
  measured.registered = options.buffers == "registered";
  IMEX_TRY(measured.type, known(data_type_from_name(options.dtype), "--dtype", options.dtype));
  IMEX_TRY(measured.op, known(reduce_op_from_name(options.op), "--op", options.op));
  IMEX_TRY(measured.algorithm,
           known(algorithm_from_name(options.algorithm), "--algorithm", options.algorithm));
  IMEX_TRY(measured.sizes, sizes_of(options.sizes, measured));
  return measured;
}

}  // namespace

Result<void> bench_exchange(const Global& global, std::string_view operation,
                            const BenchExchangeOptions& options) {
  IMEX_TRY(const auto measured, exchange_options(operation, options));
  bench::ExchangeReport report;
  {
    Progress progress(measured.sizes.size(), global.quiet);
    IMEX_TRY(report, bench::measure_exchange(measured, [&](std::uint64_t bytes) {
               progress.step(format_size(bytes));
             }));
  }
  const auto verdict = bench::check_results(measured, report);
  // One JSON document: of wrong results the error.
  if (!verdict && global.format == Format::kJson) return verdict;
  std::vector<Json> json;
  for (const auto& row : report.rows) {
    json.push_back(exchange_json(row, measured, report, options.explain));
  }
  std::string text = render_list(global.format, "results", json, exchange_table(measured, report));
  if (options.explain && global.format == Format::kTable) text += report.explanation;
  IMEX_CHECK_OK(print(text));
  return verdict;
}

}  // namespace imex::cli
