/// Replaces operator new of the test program, to see how often and for how much it is asked, and to
/// refuse it.
#pragma once

#include <cstddef>

namespace imex::inference::testing {

/// The largest single allocation of this thread since it was made. One at a time.
class LargestAllocation {
 public:
  LargestAllocation() noexcept;
  LargestAllocation(const LargestAllocation&) = delete;
  LargestAllocation& operator=(const LargestAllocation&) = delete;
  ~LargestAllocation();
  [[nodiscard]] std::size_t bytes() const noexcept;
};

/// Allocations of this thread since it was made. One at a time.
class AllocationCount {
 public:
  AllocationCount() noexcept;
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;
  ~AllocationCount();
  [[nodiscard]] std::size_t count() const noexcept;
};

/// While it lives, the allocation of this thread that comes after `successes` others fails with
/// std::bad_alloc, and only that one. One at a time.
class FailAllocation {
 public:
  explicit FailAllocation(std::size_t successes) noexcept;
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;
  ~FailAllocation();
  [[nodiscard]] bool happened() const noexcept;
};

}  // namespace imex::inference::testing
