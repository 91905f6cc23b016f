/// Host backend of imex::Allocation: a sealed memfd, mapped, and its control page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <imex/allocation.hpp>

#include "memory/segment.hpp"
#include "os/memory.hpp"

namespace imex::memory {

/// What backs the pages, as far as it was asked for: transparent huge pages come when the kernel
/// has them to give.
enum class Backing : std::uint8_t { kSmall, kTransparentHuge, kPoolHuge };

class HostAllocation;

/// Keeps an allocation's present pages in place: held by each export that shares them.
class PageHold {
 public:
  PageHold() = default;
  PageHold(PageHold&& other) noexcept = default;
  PageHold& operator=(PageHold&& other) noexcept {
    release();
    allocation_ = std::move(other.allocation_);
    return *this;
  }
  ~PageHold() { release(); }
  void release() noexcept;

 private:
  friend class HostAllocation;
  explicit PageHold(std::shared_ptr<HostAllocation> allocation) noexcept
      : allocation_(std::move(allocation)) {}
  std::shared_ptr<HostAllocation> allocation_;
};

/// Owns the data memfd, its mapping, the control memfd and its mapping. The first two live as long
/// as any importer holds them. publish(), mark_revoked() and move_to_fresh_pages() may be called by
/// any thread; while the last one runs, no thread may write the data.
class HostAllocation {
 public:
  /// As imex::Allocation::create().
  [[nodiscard]] static Result<std::shared_ptr<HostAllocation>> create(
      std::size_t size_bytes, const AllocationOptions& options);

  HostAllocation(const HostAllocation&) = delete;
  HostAllocation& operator=(const HostAllocation&) = delete;

  /// The address stays the same for the object's life.
  [[nodiscard]] std::byte* data() const noexcept { return address_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_bytes_; }
  [[nodiscard]] std::size_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return mapped_bytes_; }
  [[nodiscard]] Backing backing() const noexcept { return backing_; }

  /// Borrowed; valid until move_to_fresh_pages() (so while a PageHold lives) or the end of this
  /// object.
  struct Fds {
    int data = -1;
    int control = -1;
  };
  [[nodiscard]] Fds fds() const;
  /// 0: not published.
  [[nodiscard]] std::uint32_t generation() const;

  /// Writes the segment header. `generation` > 0. A second call for the same generation changes
  /// nothing (an allocation may have several exports; the header keeps the first one's rank).
  /// Errors: kInvalidArgument; kFailedPrecondition for another generation than the published one.
  [[nodiscard]] Result<void> publish(std::uint32_t generation, std::uint32_t rank);

  /// States in the header that the segment ended. Importers that already map it are told by the
  /// daemon.
  void mark_revoked();

  /// Leaves the present pages to whoever still maps them: copies the bytes to fresh memfds and puts
  /// those at the same address, so that pointers stay good and nothing written from now on reaches
  /// the old pages. A published segment is published again under the next generation. Returns that
  /// generation (0: not published). On error all is as before.
  /// Errors: kResourceExhausted with the bytes that were free; kFailedPrecondition (somebody holds
  /// the present pages; generations used up).
  [[nodiscard]] Result<std::uint32_t> move_to_fresh_pages();

  [[nodiscard]] static PageHold hold_pages(std::shared_ptr<HostAllocation> allocation);
  /// Holds pages of another generation than `former`: those that are there, or fresh ones. One
  /// step, so that two exports of an allocation that are made anew at once move it once.
  /// Errors: as move_to_fresh_pages().
  [[nodiscard]] static Result<PageHold> hold_pages_after(std::shared_ptr<HostAllocation> allocation,
                                                         std::uint32_t former);

 private:
  friend class PageHold;
  [[nodiscard]] Result<std::uint32_t> move_locked();

  /// One set of pages: data and control.
  struct Pages {
    os::UniqueFd data_fd;
    os::UniqueFd control_fd;
    os::Mapping control;
    [[nodiscard]] SegmentHeader& header() const noexcept;
  };
  HostAllocation(std::size_t size_bytes, std::size_t page_bytes, Backing backing) noexcept;
  [[nodiscard]] static Result<Pages> make_pages(std::size_t mapped_bytes, Backing backing);

  const std::size_t size_bytes_;
  const std::size_t page_bytes_;
  const std::size_t mapped_bytes_;
  const Backing backing_;
  std::byte* address_ = nullptr;  // constant after create()

  mutable std::mutex mutex_;  // guards all below
  os::Mapping mapping_;
  Pages pages_;
  SegmentFacts published_{};  // generation 0: not published
  std::uint32_t holds_ = 0;
};

}  // namespace imex::memory
