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
  const auto usage_text = os::read_file(folder + usage, kFileLimitBytes);
  const auto stat_text = os::read_file(folder + "/memory.stat", kFileLimitBytes);
  if (!limit_text || !usage_text) return std::nullopt;
  return cgroup_headroom(*limit_text, *usage_text, stat_text ? *stat_text : std::string());
}

/// The smallest headroom of this process's control group and its parents, version 2 or 1.
std::uint64_t control_group_headroom() {
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  const auto groups = os::read_file("/proc/self/cgroup", kFileLimitBytes);
  if (!groups) return lowest;
  const auto v2 = line_after(*groups, "0::");
  for (std::string path(v2.value_or("")); v2; path.resize(path.rfind('/'))) {
    const auto room = headroom_of_folder("/sys/fs/cgroup" + path, "/memory.max", "/memory.current");
    lowest = std::min(lowest, room.value_or(lowest));
    if (path.find('/') == std::string::npos) break;
  }
  // Inside a container version 1 shows the own group at the root of its tree.
  const auto v1 = headroom_of_folder("/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                     "/memory.usage_in_bytes");
  return std::min(lowest, v1.value_or(lowest));
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
