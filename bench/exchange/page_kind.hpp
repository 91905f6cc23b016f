/// Which pages really back a vector, and private memory on the pages that were asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <imex/allocation.hpp>

#include "base/result.hpp"

namespace imex::bench {

enum class PageKind : std::uint8_t { kSmall, kMixed, kHuge };
[[nodiscard]] std::string_view page_kind_name(PageKind kind) noexcept;

/// From the text of /proc/PID/smaps: pages of a pool, or transparent ones, of a range of addresses.
[[nodiscard]] PageKind find_page_kind(std::string_view smaps, std::uintptr_t address,
                                      std::size_t bytes) noexcept;
/// Of this process's memory, which must have been touched.
[[nodiscard]] Result<PageKind> page_kind_of(const void* address, std::size_t bytes);

/// kOk, or why a measurement on pages that were not asked for must not go on.
[[nodiscard]] Result<void> check_pages(Pages wanted, PageKind found, std::string_view what);

/// Anonymous memory, touched, beginning at a huge page's border, inaccessible before and after.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  [[nodiscard]] static Result<PrivateMemory> create(std::size_t bytes, Pages pages);
  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::byte* reserved_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace imex::bench
