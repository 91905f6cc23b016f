#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "base/units.hpp"
#include "base/version.hpp"
#include "bench/memory.hpp"
#include "commands.hpp"

namespace imex::cli {
namespace {

/// imexd beside this program. Errors: kNotFound.
Result<std::string> daemon_program(const std::string& given) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = given.empty()
                               ? fs::read_symlink("/proc/self/exe", error).parent_path() / "imexd"
                               : fs::path(given);
  if (!fs::exists(program, error)) {
    return fail(Errc::kNotFound,
                fmt::format("no daemon to measure: {} does not exist", program.string()),
                "build imexd, or name it with --daemon");
  }
  return program.string();
}

std::optional<double> share_of_limit(const bench::Row& row) {
  if (!row.limit_us || row.time.median_us <= 0) return std::nullopt;
  return *row.limit_us / row.time.median_us;
}

Json to_json(const bench::Row& row) {
  Json json{{"operation", row.operation},
            {"placement", row.placement},
            {"ranks", row.ranks},
            {"backend", "host"},
            {"bytes", row.bytes}};
  if (row.time.n != 0) {
    json.update(Json{{"median_us", row.time.median_us},
                     {"mad_us", row.time.mad_us},
                     {"min_us", row.time.min_us},
                     {"max_us", row.time.max_us},
                     {"p99_us", row.time.p99_us},
                     {"n", row.time.n}});
  }
  if (row.limit_us) {
    json["limit_us"] = *row.limit_us;
    json["share_of_limit"] = share_of_limit(row).value_or(0);
    json["times_limit"] = row.time.median_us / *row.limit_us;
  }
  for (const auto& [name, value] : row.figures) json[name] = value;
  if (row.mark) {
    json["mark"] = row.mark->text;
    json["mark_value"] = row.mark->value;
    json["mark_limit"] = row.mark->limit;
    json["mark_met"] = row.mark->met();
  }
  json["checked"] = row.checked;
  if (!row.pages.empty()) json["pages"] = row.pages;
  json["cpu"] = bench::cpu_name();
  json["commit"] = build_info().git;
  json["build_type"] = build_info().build_type;
  return json;
}

std::string figures_of(const bench::Row& row) {
  std::string text;
  for (const auto& [name, value] : row.figures) {
    if (name.ends_with("_limit_bytes") || name.find("limit") != std::string::npos) continue;
    if (!text.empty()) text += ", ";
    text += name.ends_with("_bytes") ? fmt::format("{} {}", name.substr(0, name.size() - 6),
                                                   format_size(static_cast<std::uint64_t>(value)))
                                     : fmt::format("{} {:.3g}", name, value);
  }
  return text;
}

void add_to_table(Table& table, const bench::Row& row) {
  const auto us = [&](double value) {
    return row.time.n == 0 ? std::string() : fmt::format("{:.2f}", value);
  };
  std::string verdict;
  if (row.mark) verdict = fmt::format("{}: {}", row.mark->text, row.mark->met() ? "met" : "missed");
  if (const std::string figures = figures_of(row); !figures.empty()) {
    verdict += fmt::format("{}({})", verdict.empty() ? "" : " ", figures);
  }
  table.add({row.operation, row.placement, row.bytes == 0 ? "" : format_size(row.bytes),
             us(row.time.median_us), us(row.time.mad_us), us(row.time.p99_us), us(row.time.max_us),
             row.time.n == 0 ? "" : fmt::format("{}", row.time.n),
             row.limit_us ? fmt::format("{:.2f}", row.time.median_us / *row.limit_us) : "",
             verdict});
}

}  // namespace

Result<void> bench_memory(const Global& global, const BenchMemoryOptions& options) {
  bench::MemoryOptions measured{
      .imexd = {}, .channels = options.channels, .scale = options.scale, .idle = options.idle};
  std::vector<bench::Measurement> chosen;
  bool starts_daemons = false;
  for (const auto& each : bench::memory_measurements()) {
    if (!options.only.empty() && std::ranges::find(options.only, each.name) == options.only.end())
      continue;
    chosen.push_back(each);
    starts_daemons =
        starts_daemons || (each.needs_daemon && (each.name != "share" || options.channels.empty()));
  }
  if (starts_daemons) {
    IMEX_TRY(measured.imexd, daemon_program(options.daemon));
  }

  Table table({"OPERATION", "PLACEMENT", "SIZE", "MEDIAN_US", "MAD_US", "P99_US", "MAX_US", "N",
               "TIMES_LIMIT", "MARK"});
  std::vector<Json> json;
  {
    Progress progress(chosen.size(), global.quiet);
    for (const auto& each : chosen) {
      progress.step(each.title);
      auto rows = each.run(measured);
      if (!rows) return fail(std::move(rows).error().context(fmt::format("measure {}", each.name)));
      for (const auto& row : *rows) {
        add_to_table(table, row);
        json.push_back(to_json(row));
      }
    }
  }
  return print(render_list(global.format, "results", json, table));
}

}  // namespace imex::cli
