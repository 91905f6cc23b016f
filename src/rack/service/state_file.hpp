/// The state of one domain between two runs. Format: docs/formats/rack-state.md.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "rack/domain.hpp"

namespace imex::rack {

/// Nothing if there is no file. Errors: kDataLoss: not a state, or of a newer version.
[[nodiscard]] Result<std::optional<DomainState>> read_state_file(const std::string& path);
/// What the file holds.
[[nodiscard]] std::string state_text(const DomainState& state);
/// Replaces the file in one step; it is on the disk when this returns.
[[nodiscard]] Result<void> write_state_file(const std::string& path, const std::string& text);
/// The text of the file, for tests and fuzzing. Errors: as of reading.
[[nodiscard]] Result<DomainState> parse_state(std::string_view text, const std::string& path);

}  // namespace imex::rack
