/// Is this file the one that the catalogue means?
#pragma once

#include <string>

#include "inference/catalogue/catalogue.hpp"

namespace imex::inference {

/// 64 lower-case hexadecimal digits. Errors: those of os::map_file, kInternal.
[[nodiscard]] Result<std::string> file_sha256(const std::string& path);

/// Errors: kNotFound, kDataLoss with what was wanted and what was found, those of file_sha256.
[[nodiscard]] Result<void> check_model_file(const CatalogueModel& model, const std::string& path);

}  // namespace imex::inference
