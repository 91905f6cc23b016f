/// What this build is, for `--version` of every executable and for logs. Thread-safe, static
/// storage.
///
/// A room of its own (target imex_version): the one object file that depends on the state of the
/// git checkout, so that a commit relinks the applications and recompiles nothing else.
#pragma once

#include <string>
#include <string_view>

namespace imex {

struct BuildInfo {
  std::string_view version;  ///< "0.1.0", of project() in CMakeLists.txt
  std::string_view git;  ///< `git describe --always --tags --dirty`; "unknown" outside a checkout
  std::string_view
      build_type;  ///< CMAKE_BUILD_TYPE; sanitizers behind a plus: "RelWithDebInfo+thread"
  std::string_view backends;  ///< of memory, comma-separated: "host"
};
[[nodiscard]] const BuildInfo& build_info() noexcept;

/// "imex 0.1.0 (git v0.1.0-12-gdeadbee, Release, backends host)"
[[nodiscard]] std::string version_line();

}  // namespace imex
