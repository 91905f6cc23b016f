#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/version.hpp"
#include "bench/control/control.hpp"
#include "commands.hpp"

namespace imex::cli {
namespace {

/// A program that was named, or the one beside this.
Result<std::string> program(const std::string& given, const char* name, const char* option) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = given.empty()
                            ? fs::read_symlink("/proc/self/exe", error).parent_path() / name
                            : fs::path(given);
  if (!fs::exists(path, error)) {
    return fail(Errc::kNotFound,
                fmt::format("nothing to measure: {} does not exist", path.string()),
                fmt::format("build {}, or name it with {}", name, option));
  }
  return path.string();
}

Json to_json(const bench::ControlRow& row) {
  Json json{{"operation", row.operation}, {"setting", row.setting}};
  if (row.time.n != 0) {
    json.update(Json{{"median_us", row.time.median_us},
                     {"mad_us", row.time.mad_us},
                     {"min_us", row.time.min_us},
                     {"max_us", row.time.max_us},
                     {"p99_us", row.time.p99_us},
                     {"n", row.time.n}});
  }
  for (const auto& [name, value] : row.figures) json[name] = value;
  json["marks"] = Json::array();
  for (const bench::Mark& mark : row.marks) {
    json["marks"].push_back(
        {{"mark", mark.text}, {"value", mark.value}, {"limit", mark.limit}, {"met", mark.met()}});
  }
  json["met"] = row.met();
  json["cpu"] = bench::cpu_name();
  json["commit"] = build_info().git;
  json["build_type"] = build_info().build_type;
  return json;
}

void add_row(Table& table, const bench::ControlRow& row) {
  const auto ms = [&](double us) {
    return row.time.n == 0 ? std::string() : fmt::format("{:.2f}", us / 1e3);
  };
  std::string figures, marks;
  for (const auto& [name, value] : row.figures)
    figures += fmt::format("{}{} {:.4g}", figures.empty() ? "" : ", ", name, value);
  for (const bench::Mark& mark : row.marks)
    marks += fmt::format("{}{}: {}", marks.empty() ? "" : "; ", mark.text,
                         mark.met() ? "met" : "missed");
  table.add({row.operation, row.setting, ms(row.time.median_us), ms(row.time.p99_us),
             ms(row.time.max_us), row.time.n == 0 ? "" : fmt::format("{}", row.time.n), figures,
             marks});
}

}  // namespace

Result<void> bench_control(const Global& global, const BenchControlOptions& options) {
  bench::ControlOptions measured;
  measured.scale = options.scale;
  IMEX_TRY(measured.rack, program(options.rack, "imex-rack", "--imex-rack"));
  IMEX_TRY(measured.controller,
           program(options.controller, "imex-controller", "--imex-controller"));
  Table table({"OPERATION", "SETTING", "MEDIAN_MS", "P99_MS", "MAX_MS", "N", "FIGURES", "MARKS"});
  std::vector<Json> json;
  {
    const auto all = bench::control_measurements();
    const auto is_chosen = [&](const bench::ControlMeasurement& each) {
      return options.only.empty() ||
             std::ranges::find(options.only, each.name) != options.only.end();
    };
    Progress progress(static_cast<std::size_t>(std::ranges::count_if(all, is_chosen)),
                      global.quiet);
    for (const bench::ControlMeasurement& each : all) {
      if (!is_chosen(each)) continue;
      progress.step(each.title);
      auto rows = each.run(measured);
      if (!rows) return fail(std::move(rows).error().context(fmt::format("measure {}", each.name)));
      for (const bench::ControlRow& row : *rows) {
        add_row(table, row);
        json.push_back(to_json(row));
      }
    }
  }
  return print(render_list(global.format, "results", json, table));
}

}  // namespace imex::cli
