/// How much memory could still be had: asked before pages are touched, since touching too many ends
/// in the kernel killing a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <imex/result.hpp>

namespace imex::memory {

struct FreeMemory {
  std::uint64_t available_bytes = 0;  ///< of the machine, cut by the limit of the control group
  std::uint64_t huge_pages = 0;       ///< free in the pool and promised to nobody
  std::uint64_t huge_page_bytes = 0;  ///< of the default pool; 0: the kernel has none
};

/// Reads /proc/meminfo and the limits of the control groups: some tens of microseconds.
[[nodiscard]] Result<FreeMemory> read_free_memory();

/// The number after `key` in a text of lines "Key:   123 kB" (in bytes if kB is stated).
[[nodiscard]] std::optional<std::uint64_t> find_meminfo(std::string_view text,
                                                        std::string_view key);

/// Bytes left to a control group from its limit ("max": none), its usage and the line
/// `inactive_file` of its memory.stat, which the kernel gives up before it kills.
[[nodiscard]] std::optional<std::uint64_t> cgroup_headroom(std::string_view limit,
                                                           std::string_view usage,
                                                           std::string_view stat);

/// Whether the kernel gives transparent huge pages to shared memory that asks for them.
[[nodiscard]] bool transparent_huge_shared_memory();

}  // namespace imex::memory
