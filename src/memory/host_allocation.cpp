#include "memory/host_allocation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "base/units.hpp"
#include "free_memory.hpp"

namespace imex::memory {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;  // what os::HugePages::kPool gives
constexpr std::size_t kAlignmentMax = std::size_t{1} << 30U;
constexpr std::size_t kAllocationBytesMax = std::size_t{1}
                                            << 47U;  // the whole user address space of x86-64

std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

Result<void> check_request(std::size_t size_bytes, const AllocationOptions& options) {
  if (size_bytes == 0 || size_bytes > kAllocationBytesMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("allocate {} bytes: 1 to {} wanted", size_bytes, kAllocationBytesMax));
  }
  if (!std::has_single_bit(options.alignment) || options.alignment > kAlignmentMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("alignment of {} bytes: a power of two of at most 1 GiB wanted",
                            options.alignment));
  }
  return {};
}

tl::unexpected<Error> not_enough(std::size_t wanted_bytes, std::uint64_t free_bytes) {
  return fail(Errc::kResourceExhausted,
              fmt::format("allocate {} ({} bytes): {} ({} bytes) free", format_size(wanted_bytes),
                          wanted_bytes, format_size(free_bytes), free_bytes),
              "free memory or raise the limit of the control group");
}

/// Which pages to use. Asks how much is free before anything is touched: afterwards the kernel's
/// only answer is to kill.
Result<Backing> choose_backing(std::size_t size_bytes, Pages wanted) {
  IMEX_TRY(const FreeMemory free, read_free_memory());
  const std::size_t huge_count = round_up(size_bytes, kHugePageBytes) / kHugePageBytes;
  const bool pool_fits = free.huge_page_bytes == kHugePageBytes && free.huge_pages >= huge_count;
  // Below one huge page a small one wastes less than the pool would lose.
  const bool want_pool =
      wanted == Pages::kHuge || (wanted == Pages::kAuto && size_bytes >= kHugePageBytes);
  if (want_pool && pool_fits) return Backing::kPoolHuge;
  if (wanted == Pages::kHuge) {
    return fail(Errc::kResourceExhausted,
                fmt::format("allocate {} in {} huge pages of 2 MiB: {} free in the pool",
                            format_size(size_bytes), huge_count,
                            free.huge_page_bytes == kHugePageBytes ? free.huge_pages : 0),
                "raise vm.nr_hugepages or ask for Pages::kAuto");
  }
  if (round_up(size_bytes, os::page_bytes()) > free.available_bytes) {
    return not_enough(size_bytes, free.available_bytes);
  }
  const bool transparent =
      wanted == Pages::kAuto && size_bytes >= kHugePageBytes && transparent_huge_shared_memory();
  return transparent ? Backing::kTransparentHuge : Backing::kSmall;
}

std::size_t page_bytes_of(Backing backing) {
  return backing == Backing::kPoolHuge ? kHugePageBytes : os::page_bytes();
}

os::Mapping::Options mapping_options(Backing backing, const AllocationOptions& options) {
  // Transparent huge pages, too, need an address on a huge page's border.
  const std::size_t least = backing == Backing::kSmall ? os::page_bytes() : kHugePageBytes;
  return {.populate = options.prefault,
          .alignment = std::max(options.alignment, least),
          .advise_huge = backing == Backing::kTransparentHuge};
}

}  // namespace

SegmentHeader& HostAllocation::Pages::header() const noexcept {
  return *reinterpret_cast<SegmentHeader*>(control.data());
}

HostAllocation::HostAllocation(std::size_t size_bytes, std::size_t page_bytes,
                               Backing backing) noexcept
    : size_bytes_(size_bytes),
      page_bytes_(page_bytes),
      mapped_bytes_(round_up(size_bytes, page_bytes)),
      backing_(backing) {}

Result<HostAllocation::Pages> HostAllocation::make_pages(std::size_t mapped_bytes,
                                                         Backing backing) {
  Pages pages;
  const auto huge = backing == Backing::kPoolHuge ? os::HugePages::kPool : os::HugePages::kNone;
  IMEX_TRY(pages.data_fd, os::make_memfd("imex-data", mapped_bytes, huge));
  IMEX_TRY(pages.control_fd, os::make_memfd("imex-control", kControlBytes));
  IMEX_TRY(pages.control,
           os::Mapping::map(pages.control_fd.get(), kControlBytes, {.populate = true}));
  return pages;
}

Result<std::shared_ptr<HostAllocation>> HostAllocation::create(std::size_t size_bytes,
                                                               const AllocationOptions& options) {
  IMEX_CHECK_OK(check_request(size_bytes, options));
  IMEX_TRY(Backing backing, choose_backing(size_bytes, options.pages));
  auto pages = make_pages(round_up(size_bytes, page_bytes_of(backing)), backing);
  if (!pages && backing == Backing::kPoolHuge && options.pages == imex::Pages::kAuto) {
    // Somebody else took the pool's pages since we looked.
    backing = transparent_huge_shared_memory() ? Backing::kTransparentHuge : Backing::kSmall;
    pages = make_pages(round_up(size_bytes, page_bytes_of(backing)), backing);
  }
  if (!pages) return fail(std::move(pages).error());

  // Private constructor: make_shared cannot call it.
  std::shared_ptr<HostAllocation> allocation(
      new HostAllocation(size_bytes, page_bytes_of(backing), backing));
  allocation->pages_ = std::move(*pages);
  IMEX_TRY(allocation->mapping_,
           os::Mapping::map(allocation->pages_.data_fd.get(), allocation->mapped_bytes_,
                            mapping_options(backing, options)));
  allocation->address_ = allocation->mapping_.data();
  return allocation;
}

HostAllocation::Fds HostAllocation::fds() const {
  const std::scoped_lock lock(mutex_);
  return {pages_.data_fd.get(), pages_.control_fd.get()};
}

std::uint32_t HostAllocation::generation() const {
  const std::scoped_lock lock(mutex_);
  return published_.generation;
}

Result<void> HostAllocation::publish(std::uint32_t generation, std::uint32_t rank) {
  if (generation == 0) return fail(Errc::kInvalidArgument, "publish segment: generation 0");
  const std::scoped_lock lock(mutex_);
  if (published_.generation == generation) return {};
  if (published_.generation != 0) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("publish segment under generation {}: it has generation {}", generation,
                            published_.generation),
                "move the allocation to fresh pages for a new generation");
  }
  published_ = {
      .size_bytes = size_bytes_, .page_bytes = page_bytes_, .generation = generation, .rank = rank};
  publish_segment(pages_.header(), published_);
  return {};
}

void HostAllocation::mark_revoked() {
  const std::scoped_lock lock(mutex_);
  if (published_.generation != 0) mark_segment_revoked(pages_.header());
}

void PageHold::release() noexcept {
  if (allocation_ == nullptr) return;
  {
    const std::scoped_lock lock(allocation_->mutex_);
    --allocation_->holds_;
  }
  allocation_.reset();
}

PageHold HostAllocation::hold_pages(std::shared_ptr<HostAllocation> allocation) {
  {
    const std::scoped_lock lock(allocation->mutex_);
    ++allocation->holds_;
  }
  return PageHold(std::move(allocation));
}

Result<PageHold> HostAllocation::hold_pages_after(std::shared_ptr<HostAllocation> allocation,
                                                  std::uint32_t former) {
  {
    const std::scoped_lock lock(allocation->mutex_);
    if (allocation->published_.generation == former) IMEX_CHECK_OK(allocation->move_locked());
    ++allocation->holds_;
  }
  return PageHold(std::move(allocation));
}

Result<std::uint32_t> HostAllocation::move_to_fresh_pages() {
  const std::scoped_lock lock(mutex_);
  return move_locked();
}

Result<std::uint32_t> HostAllocation::move_locked() {
  if (holds_ != 0) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("move allocation of {} bytes: {} exports share its present pages",
                            size_bytes_, holds_),
                "end the other exports of it, or wait for their kExportQuiescent if they are being "
                "withdrawn; afterwards it can be exported anew");
  }
  if (published_.generation == std::numeric_limits<std::uint32_t>::max()) {
    return fail(Errc::kFailedPrecondition, "move segment: its generations are used up");
  }
  if (backing_ != Backing::kPoolHuge) {  // the pool answers for itself when it has too few pages
    IMEX_TRY(const FreeMemory free, read_free_memory());
    if (mapped_bytes_ > free.available_bytes)
      return not_enough(mapped_bytes_, free.available_bytes);
  }
  IMEX_TRY(Pages fresh, make_pages(mapped_bytes_, backing_));
  const AllocationOptions like_create{.alignment = page_bytes_, .prefault = true};
  {
    IMEX_TRY(const os::Mapping target, os::Mapping::map(fresh.data_fd.get(), mapped_bytes_,
                                                        mapping_options(backing_, like_create)));
    std::memcpy(target.data(), address_, mapped_bytes_);
  }
  // The last step that can fail; it fails as a whole, with the old pages still in place.
  IMEX_CHECK_OK(mapping_.replace(fresh.data_fd.get()));
  if (published_.generation != 0) {
    mark_segment_revoked(pages_.header());
    ++published_.generation;
    publish_segment(fresh.header(), published_);
  }
  pages_ = std::move(fresh);
  return published_.generation;
}

}  // namespace imex::memory
