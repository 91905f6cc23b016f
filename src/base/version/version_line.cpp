#include <fmt/format.h>

#include "base/version.hpp"

namespace imex {

std::string version_line() {
  const BuildInfo& info = build_info();
  return fmt::format("imex {} (git {}, {}, backends {})", info.version, info.git, info.build_type,
                     info.backends);
}

}  // namespace imex
