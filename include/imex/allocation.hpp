/// Memory that can be shared: created here, exported and imported through a Session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <imex/export.h>
#include <imex/result.hpp>

namespace imex {

namespace memory {
class HostAllocation;
}

/// Which pages back an allocation.
enum class Pages : std::uint8_t {
  kAuto = 0,   ///< huge pages from the pool, else transparent ones, else small
  kHuge = 1,   ///< huge pages from the pool, or an error
  kSmall = 2,  ///< base pages
};

struct AllocationOptions {
  std::size_t alignment = 4096;  ///< of data(); a power of two, at most 1 GiB
  Pages pages = Pages::kAuto;
  bool prefault = true;  ///< touch every page now, on this thread's NUMA node
};

/// Owns zeroed shared memory (host backend: a sealed memfd, mapped). Movable. The memory stays
/// alive while any importer holds it, also after this object and its process are gone. Thread-safe
/// to read; the bytes themselves follow the rules of whoever shares them.
class IMEX_API Allocation {
 public:
  /// `size_bytes` (> 0) is rounded up to whole pages; size() gives what was asked for.
  /// Errors: kInvalidArgument; kResourceExhausted with the bytes that were free.
  [[nodiscard]] static Result<Allocation> create(std::size_t size_bytes,
                                                 const AllocationOptions& options = {});

  Allocation(Allocation&&) noexcept;
  Allocation& operator=(Allocation&&) noexcept;
  ~Allocation();

  [[nodiscard]] std::byte* data() noexcept;
  [[nodiscard]] const std::byte* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data(), size()}; }
  /// Bytes per page that back the memory (4096, 2 MiB, ...).
  [[nodiscard]] std::size_t page_bytes() const noexcept;

  /// The backend object; for the other rooms of Imex.
  [[nodiscard]] memory::HostAllocation& backend() noexcept { return *impl_; }

 private:
  friend class Session;
  explicit Allocation(std::shared_ptr<memory::HostAllocation> impl) noexcept;
  std::shared_ptr<memory::HostAllocation> impl_;  // shared with the exports made from it
};

}  // namespace imex
