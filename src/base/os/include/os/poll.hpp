/// Waiting for one of several descriptors, and a descriptor that a thread can raise.
#pragma once

#include <chrono>
#include <span>

#include "os/fd.hpp"

namespace imex::os {

/// What to look for on one descriptor, and what was found. A hang-up or an error of the descriptor
/// is always looked for, also with both requests false.
struct PollItem {
  int fd = -1;  ///< negative: skipped
  bool want_read = true;
  bool want_write = false;
  bool readable = false, writable = false, hung_up = false;  ///< results
};

/// Blocks until one of the items has something; fills in the results. At `deadline`
/// (time_point::max(): none) it returns with nothing found. Errors: kInternal.
[[nodiscard]] Result<void> poll_any(std::span<PollItem> items,
                                    std::chrono::steady_clock::time_point deadline);

/// A descriptor that is readable from raise() to the next lower(). Thread-safe.
class EventFd {
 public:
  /// Errors: kResourceExhausted (descriptors).
  [[nodiscard]] static Result<EventFd> make();
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void raise() noexcept;
  void lower() noexcept;

 private:
  explicit EventFd(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace imex::os
