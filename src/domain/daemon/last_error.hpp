/// The last failed start, for machines: <run directory>/last-error.json. A start that reaches READY
/// removes it. Callers of nvidia-imex see only an exit status; whoever supervises a node reads here
/// why (imex-service.md 18.6). Format: docs/formats/last-error.md.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex::domain {

/// "port_in_use" for 69, and so on; "internal" for a status that means nothing here.
[[nodiscard]] std::string_view exit_code_name(int exit_status) noexcept;

/// One JSON object: code, exit_status, message, hint, time (UTC), pid, version.
[[nodiscard]] std::string last_error_json(int exit_status, const Error& error);

/// Makes the directory where it is missing. Errors: those of the file system.
[[nodiscard]] Result<void> write_last_error(const std::string& run_directory, int exit_status,
                                            const Error& error);
/// Whether a daemon runs in the directory: the file would speak of that one.
[[nodiscard]] bool is_served(const std::string& run_directory);
/// A missing file is fine.
void clear_last_error(const std::string& run_directory) noexcept;

}  // namespace imex::domain
