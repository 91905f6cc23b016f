/// Programs that get a wheel and take it apart, watched while they run.
#pragma once

#include <string>

#include "inference/catalogue/fetch.hpp"

namespace imex::inference {

/// Leaves the model's file below `work`, an empty folder of our own, and returns its path.
/// Everything that the programs write, temporary files included, stays in `work`. Errors: as
/// fetch_model().
[[nodiscard]] Result<std::string> download_model(const CatalogueModel& model,
                                                 const std::string& work,
                                                 const FetchOptions& options);

}  // namespace imex::inference
