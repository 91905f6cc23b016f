#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <fmt/format.h>

#include "cgroup.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::os {

namespace {

/// Cores in the affinity mask of the calling thread; 0 if the kernel does not say.
unsigned affinity_count() noexcept {
  // The kernel refuses a mask smaller than its own, which can exceed the 1024 cores of cpu_set_t.
  constexpr std::size_t kSetsMax = 64;
  for (std::size_t count = 1; count <= kSetsMax; count *= 2) {
    std::vector<cpu_set_t> sets(count);
    const std::size_t bytes = count * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, sets.data()) == 0) {
      return static_cast<unsigned>(CPU_COUNT_S(bytes, sets.data()));
    }
    if (errno != EINVAL) break;
  }
  return 0;
}

}  // namespace

unsigned usable_cores() noexcept {
  const unsigned cores = std::max(affinity_count(), 1U);
  const auto cgroup = read_file("/proc/self/cgroup");
  const auto mountinfo = read_file("/proc/self/mountinfo");
  if (!cgroup || !mountinfo) return cores;
  const auto quota = cpu_quota(*cgroup, *mountinfo);
  if (!quota || *quota >= cores) return cores;
  // Rounded down: threads that spin beyond the quota are stopped for the rest of each period.
  return std::max(static_cast<unsigned>(*quota), 1U);
}

CoreMask core_mask() noexcept {
  constexpr std::size_t kSetsMax = 64;
  CoreMask mask{};
  std::vector<cpu_set_t> sets(kSetsMax);
  if (::sched_getaffinity(0, kSetsMax * sizeof(cpu_set_t), sets.data()) != 0) return mask;
  for (std::size_t core = 0; core != 64 * mask.size(); ++core) {
    if (CPU_ISSET(core, sets.data())) mask[core / 64] |= std::uint64_t{1} << core % 64;
  }
  return mask;
}

Result<void> pin_to_core(unsigned core) {
  const std::size_t count = core / CPU_SETSIZE + 1;
  constexpr std::size_t kSetsMax = 64;
  if (count > kSetsMax)
    return fail(Errc::kInvalidArgument, fmt::format("there is no core {}", core));
  std::vector<cpu_set_t> sets(count);
  const std::size_t bytes = count * sizeof(cpu_set_t);
  CPU_SET_S(core, bytes, sets.data());
  if (::sched_setaffinity(0, bytes, sets.data()) != 0) {
    return fail(system_error(errno, fmt::format("pin a thread to core {}", core)));
  }
  return {};
}

Time now() noexcept {
  timespec value{};
  ::clock_gettime(CLOCK_BOOTTIME, &value);
  return Time{std::int64_t{value.tv_sec} * 1'000'000'000 + value.tv_nsec};
}

Result<Uuid> boot_id() {
  IMEX_TRY(std::string text, read_file("/proc/sys/kernel/random/boot_id", 64));
  text.erase(std::min(text.find('\n'), text.size()));
  return Uuid::parse(text);
}

std::string host_name() {
  std::array<char, 257> name{};  // 256 and a zero: longer ones are cut without one
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace imex::os
