// `imex model list` and `imex model fetch`.
#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "base/units.hpp"
#include "commands.hpp"
#include "inference/catalogue/fetch.hpp"

namespace imex::cli {
namespace {

using inference::CatalogueModel;
using inference::ModelCache;

volatile std::sig_atomic_t called_off_by = 0;

/// While it lives, Ctrl-C and SIGTERM only leave a mark, so that what was begun can be removed.
class CallOff {
 public:
  CallOff() {
    called_off_by = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      former_[i] = std::signal(kSignals[i], [](int number) { called_off_by = number; });
    }
  }
  CallOff(const CallOff&) = delete;
  CallOff& operator=(const CallOff&) = delete;
  ~CallOff() {
    for (std::size_t i = 0; i < 2; ++i) std::signal(kSignals[i], former_[i]);
    // Then end as the caller expects of an interrupted program.
    if (called_off_by != 0) std::raise(called_off_by);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  void (*former_[2])(int) = {};
};

std::string source_of(const CatalogueModel& model) {
  return fmt::format("pypi:{}", model.requirement);
}

}  // namespace

Result<void> model_list(const Global& global) {
  IMEX_TRY(const ModelCache cache, ModelCache::from_environment());
  std::vector<Json> rows;
  Table table({"NAME", "SIZE", "LICENCE", "SOURCE", "CACHED", "PATH"});
  for (const CatalogueModel& model : inference::catalogue()) {
    const auto bytes = inference::cached_bytes(cache, model);
    const bool cached = bytes == model.size_bytes;
    const std::string path = bytes ? cache.path_of(model) : std::string();
    rows.push_back({{"name", model.name},
                    {"source", source_of(model)},
                    {"bytes", model.size_bytes},
                    {"sha256", model.sha256},
                    {"licence", model.licence},
                    {"cached", cached},
                    {"path", bytes ? Json(path) : Json(nullptr)}});
    table.add({std::string(model.name), format_size(model.size_bytes), std::string(model.licence),
               source_of(model),
               cached  ? "yes"
               : bytes ? "damaged"
                       : "no",
               path});
  }
  return print(render_list(global.format, "models", rows, table));
}

Result<void> model_fetch(const Global& global, const std::string& name) {
  IMEX_TRY(const CatalogueModel model, inference::catalogue_model(name));
  IMEX_TRY(const ModelCache cache, ModelCache::from_environment());
  const auto began = std::chrono::steady_clock::now();
  Result<inference::FetchedModel> fetched;
  {
    const CallOff call_off;
    Progress progress(1, global.quiet);
    inference::FetchOptions options;
    options.progress = [&](std::string_view step, std::uint64_t done, std::uint64_t total) {
      progress.amount(step, done, total);
      return called_off_by == 0;
    };
    fetched = inference::fetch_model(model, cache, options);
  }
  if (!fetched) return fail(std::move(fetched).error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (global.format == Format::kTable) return print(fetched->path);
  const Json result{{"name", model.name},        {"path", fetched->path},
                    {"bytes", model.size_bytes}, {"sha256", model.sha256},
                    {"licence", model.licence},  {"downloaded", fetched->downloaded},
                    {"seconds", took.count()}};
  return print(result.dump(global.format == Format::kJson ? 2 : -1, ' ', false,
                           Json::error_handler_t::replace));
}

}  // namespace imex::cli
