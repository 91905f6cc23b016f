#include "exchange/bench_cores.hpp"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kSetsMax = 64;

/// Where the kernel does not say, each is a core of its own.
std::string identity_of(unsigned core) {
  const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", core);
  const auto package = os::read_file(folder + "physical_package_id");
  const auto number = os::read_file(folder + "core_id");
  if (!package || !number) return fmt::format("cpu{}", core);
  return *package + *number;
}

}  // namespace

std::vector<unsigned> spread(const std::vector<unsigned>& cores, const CoreIdentity& identity) {
  std::set<std::string> seen;
  std::vector<unsigned> first, further;
  for (const unsigned core : cores) {
    (seen.insert(identity(core)).second ? first : further).push_back(core);
  }
  first.insert(first.end(), further.begin(), further.end());
  return first;
}

std::vector<unsigned> bench_cores() {
  const os::CoreMask mask = os::core_mask();
  std::vector<unsigned> cores;
  for (unsigned core = 0; core != 64 * mask.size(); ++core) {
    if ((mask[core / 64] >> core % 64 & 1U) != 0) cores.push_back(core);
  }
  if (cores.empty()) cores.push_back(0);
  cores = spread(cores, identity_of);
  cores.resize(std::min<std::size_t>(cores.size(), os::usable_cores()));
  return cores;
}

Result<Pinned> Pinned::to(unsigned core) {
  std::vector<cpu_set_t> before(kSetsMax);
  if (::sched_getaffinity(0, before.size() * sizeof(cpu_set_t), before.data()) != 0) {
    return fail(system_error(errno, "ask where this thread may run"));
  }
  IMEX_CHECK_OK(os::pin_to_core(core));
  return Pinned(std::move(before));
}

Pinned::Pinned(Pinned&& other) noexcept : before_(std::exchange(other.before_, {})) {}

Pinned::~Pinned() {
  if (before_.empty()) return;
  // Cannot fail but for cores that have gone meanwhile; then it stays where it is.
  static_cast<void>(::sched_setaffinity(0, before_.size() * sizeof(cpu_set_t), before_.data()));
}

}  // namespace imex::bench
