#include "cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "os/file.hpp"

namespace imex::os {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool lists(std::string_view comma_separated, std::string_view word) {
  const auto words = split(comma_separated, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A mounted hierarchy: `root` is the group that shows at `point`.
struct Mount {
  std::string root, point;
};

/// mountinfo: id parent major:minor root point options [tags...] - type source super-options
std::optional<Mount> find_mount(std::string_view mountinfo, bool v2) {
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.empty()) continue;
    const bool fits = v2 ? after[0] == "cgroup2"
                         : after[0] == "cgroup" && after.size() >= 3 && lists(after[2], "cpu");
    if (fits) return Mount{std::string(before[3]), std::string(before[4])};
  }
  return std::nullopt;
}

/// Path of the group in /proc/self/cgroup: lines "id:controllers:path", v2 is "0::path".
std::optional<std::string> find_group(std::string_view cgroup, bool v2) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool fits = v2 ? controllers.empty() : lists(controllers, "cpu");
    if (fits) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

std::optional<double> number(std::string_view text) {
  const auto end = std::min(text.find_first_of(" \n"), text.size());
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + end) return std::nullopt;
  return value;
}

std::optional<double> quota_of_folder(const std::string& folder, bool v2) {
  constexpr std::size_t kFileBytesMax = 256;
  std::optional<double> quota;
  std::optional<double> period;
  if (v2) {  // "max 100000" or "150000 100000"
    const auto text = read_file(folder + "/cpu.max", kFileBytesMax);
    if (!text) return std::nullopt;
    quota = number(*text);
    const auto blank = text->find(' ');
    if (blank != std::string::npos) period = number(std::string_view(*text).substr(blank + 1));
  } else {  // -1: no quota
    const auto quota_text = read_file(folder + "/cpu.cfs_quota_us", kFileBytesMax);
    const auto period_text = read_file(folder + "/cpu.cfs_period_us", kFileBytesMax);
    if (!quota_text || !period_text) return std::nullopt;
    quota = number(*quota_text);
    period = number(*period_text);
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> hierarchy_quota(std::string_view cgroup, std::string_view mountinfo, bool v2,
                                      const std::string& root) {
  const auto mount = find_mount(mountinfo, v2);
  auto group = find_group(cgroup, v2);
  if (!mount || !group) return std::nullopt;
  // In a container the mount often shows the container's group as its root. With a group outside of
  // what is mounted (a cgroup namespace), the mount point itself is the best there is.
  if (mount->root != "/" && group->compare(0, mount->root.size(), mount->root) == 0) {
    group->erase(0, mount->root.size());
  }
  if (group->find("..") != std::string::npos) group->clear();
  std::optional<double> least;
  for (;;) {  // each group is cut by all above it
    const auto quota = quota_of_folder(root + mount->point + *group, v2);
    if (quota) least = std::min(least.value_or(*quota), *quota);
    const auto slash = group->find_last_of('/');
    if (slash == std::string::npos) return least;
    group->erase(slash);
  }
}

}  // namespace

std::optional<double> cpu_quota(std::string_view cgroup, std::string_view mountinfo,
                                const std::string& root) {
  const auto v1 = hierarchy_quota(cgroup, mountinfo, false, root);
  const auto v2 = hierarchy_quota(cgroup, mountinfo, true, root);
  if (v1 && v2) return std::min(*v1, *v2);
  return v1 ? v1 : v2;
}

}  // namespace imex::os
