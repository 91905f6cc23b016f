/// What the GPUs of one tray are to its node now, as a file that fabric/file_view.hpp reads.
#pragma once

#include <string>

#include "base/result.hpp"
#include "rack/domain.hpp"

namespace imex::rack {

/// TOML; format: docs/formats/rack-control.md. A GPU in no partition stands there unattached.
[[nodiscard]] std::string tray_file_text(const Domain& domain, unsigned tray);
/// Replaces the file in one step. Not synchronised to disk: it is written again at every start.
[[nodiscard]] Result<void> write_tray_file(const std::string& path, const std::string& text);

}  // namespace imex::rack
