/// CPU quota of control groups; private to this room and pure but for the reading of files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace imex::os {

/// Cores that the quotas of this process's control group and of the groups above it leave, v1 and
/// v2; nothing if there is no quota. `cgroup` and `mountinfo`: texts of /proc/self/...; `root`: put
/// in front of the paths that are read (for tests).
[[nodiscard]] std::optional<double> cpu_quota(std::string_view cgroup, std::string_view mountinfo,
                                              const std::string& root = {});

}  // namespace imex::os
