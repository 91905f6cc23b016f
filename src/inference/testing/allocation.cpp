#include "inference/testing/allocation.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

struct Watch {
  std::size_t count = 0, largest = 0;
  std::size_t successes = SIZE_MAX;  // left before one fails
  bool failed = false;
};
thread_local Watch watch;

void* allocate(std::size_t bytes) noexcept {
  ++watch.count;
  watch.largest = std::max(watch.largest, bytes);
  if (watch.successes == 0 && !watch.failed) {
    watch.failed = true;
    return nullptr;
  }
  if (!watch.failed && watch.successes != SIZE_MAX) --watch.successes;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* allocate_or_throw(std::size_t bytes) {
  if (void* const memory = allocate(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Those for aligned types stay the library's.
void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace imex::inference::testing {

LargestAllocation::LargestAllocation() noexcept { watch = {}; }
LargestAllocation::~LargestAllocation() { watch = {}; }
std::size_t LargestAllocation::bytes() const noexcept { return watch.largest; }

AllocationCount::AllocationCount() noexcept { watch = {}; }
AllocationCount::~AllocationCount() { watch = {}; }
std::size_t AllocationCount::count() const noexcept { return watch.count; }

FailAllocation::FailAllocation(std::size_t successes) noexcept {
  watch = {.count = 0, .largest = 0, .successes = successes, .failed = false};
}
FailAllocation::~FailAllocation() { watch = {}; }
bool FailAllocation::happened() const noexcept { return watch.failed; }

}  // namespace imex::inference::testing
