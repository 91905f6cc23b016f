#include "free_memory.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "base/result.hpp"
#include "os/file.hpp"

namespace imex::memory {

namespace {

constexpr std::size_t kFileLimitBytes = 64U << 10U;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;

std::optional<std::uint64_t> leading_number(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::string_view> line_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(key)) return line.substr(key.size());
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> headroom_of_folder(const std::string& folder, const char* limit,
                                                const char* usage) {
  const auto limit_text = os::read_file(folder + limit, kFileLimitBytes);
  // Version 1 writes "no limit" as the largest number of whole pages.
  if (!limit_text || leading_number(*limit_text).value_or(kNoLimit) >= kNoLimit)
    return std::nullopt;
  const auto usage_text = os::read_file(folder + usage, kFileLimitBytes);
  if (!usage_text) return std::nullopt;
  // Last and only where there is a limit: reading it makes the kernel sum up all cores, a
  // millisecond.
  const auto stat_text = os::read_file(folder + "/memory.stat", kFileLimitBytes);
  return cgroup_headroom(*limit_text, *usage_text, stat_text ? *stat_text : std::string());
}

/// The group's path in its tree, from lines "4:memory:/path" and, for version 2, "0::/path".
std::optional<std::string> group_path(std::string_view groups, std::string_view controller) {
  for (std::size_t start = 0; start < groups.size();) {
    const std::string_view line = groups.substr(start, groups.find('\n', start) - start);
    start += line.size() + 1;
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) {
      return std::string(line.substr(second + 1));
    }
  }
  return std::nullopt;
}

/// The smallest headroom of a group and its parents. Inside a container the path may not exist
/// below the mount, whose root then is the own group.
std::uint64_t tree_headroom(const std::string& mount, std::string path, const char* limit,
                            const char* usage) {
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    lowest = std::min(lowest, headroom_of_folder(mount + path, limit, usage).value_or(lowest));
    if (path.empty()) return lowest;
    path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
  }
}

std::uint64_t control_group_headroom() {
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  const auto groups = os::read_file("/proc/self/cgroup", kFileLimitBytes);
  if (!groups) return lowest;
  if (const auto path = group_path(*groups, "")) {
    lowest = tree_headroom("/sys/fs/cgroup", *path, "/memory.max", "/memory.current");
  }
  if (const auto path = group_path(*groups, "memory")) {
    lowest = std::min(lowest, tree_headroom("/sys/fs/cgroup/memory", *path,
                                            "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
  }
  return lowest;
}

}  // namespace

std::optional<std::uint64_t> find_meminfo(std::string_view text, std::string_view key) {
  const auto rest = line_after(text, std::string(key) + ":");
  if (!rest) return std::nullopt;
  const auto value = leading_number(*rest);
  if (!value) return std::nullopt;
  return rest->ends_with(" kB") ? *value * 1024 : *value;
}

std::optional<std::uint64_t> cgroup_headroom(std::string_view limit, std::string_view usage,
                                             std::string_view stat) {
  const auto limit_bytes = leading_number(limit);
  const auto usage_bytes = leading_number(usage);
  if (!limit_bytes || !usage_bytes) return std::nullopt;
  const auto line = line_after(stat, "inactive_file ");
  const std::uint64_t reclaimable = line ? leading_number(*line).value_or(0) : 0;
  const std::uint64_t used = *usage_bytes - std::min(reclaimable, *usage_bytes);
  return *limit_bytes - std::min(used, *limit_bytes);
}

Result<FreeMemory> read_free_memory() {
  IMEX_TRY(const std::string text, os::read_file("/proc/meminfo", kFileLimitBytes));
  const auto available = find_meminfo(text, "MemAvailable");
  if (!available) return fail(Errc::kUnsupported, "/proc/meminfo: no line MemAvailable");
  FreeMemory result;
  result.available_bytes = std::min(*available, control_group_headroom());
  const std::uint64_t free_pages = find_meminfo(text, "HugePages_Free").value_or(0);
  result.huge_pages =
      free_pages - std::min(free_pages, find_meminfo(text, "HugePages_Rsvd").value_or(0));
  result.huge_page_bytes = find_meminfo(text, "Hugepagesize").value_or(0);
  return result;
}

bool transparent_huge_shared_memory() {
  const auto text =
      os::read_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled", kFileLimitBytes);
  return text && text->find("[never]") == std::string::npos &&
         text->find("[deny]") == std::string::npos;
}

}  // namespace imex::memory
