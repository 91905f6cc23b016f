#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "futex_slices.hpp"
#include "syscall.hpp"

namespace imex::os {

namespace {

using Clock =
    std::chrono::steady_clock;  // CLOCK_MONOTONIC, the clock of the absolute time-outs below

// Kernel ABI of futex_waitv(2), Linux 5.16; spelt out because Debian's libc has no wrapper and
// older kernel headers lack it.
constexpr long kFutexWaitvNumber = 449;
constexpr std::uint32_t kSizeU32 = 2;  // and no FUTEX_PRIVATE_FLAG: shared between processes
struct WaitEntry {
  std::uint64_t expected = 0;
  std::uint64_t address = 0;
  std::uint32_t flags = kSizeU32;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(WaitEntry) == 24);

FutexResult result_of(long rc, int error) noexcept {
  if (rc >= 0) return FutexResult::kWoken;
  switch (error) {
    case ETIMEDOUT:
      return FutexResult::kTimedOut;
    case EINTR:
      return FutexResult::kInterrupted;
    default:
      // EAGAIN: the word differs. EFAULT: the page went away; the caller's next load tells.
      return FutexResult::kChanged;
  }
}

}  // namespace

FutexResult futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected,
                       Clock::time_point deadline) noexcept {
  const timespec until = to_timespec(deadline.time_since_epoch());
  const timespec* timeout = deadline == Clock::time_point::max() ? nullptr : &until;
  const long rc = ::syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, timeout, nullptr,
                            FUTEX_BITSET_MATCH_ANY);
  return result_of(rc, errno);
}

FutexResult futex_wait_either_sliced(const std::atomic<std::uint32_t>* a, std::uint32_t expected_a,
                                     const std::atomic<std::uint32_t>* b, std::uint32_t expected_b,
                                     Clock::time_point deadline) noexcept {
  constexpr auto kSlice = std::chrono::milliseconds(1);
  for (;;) {
    // Acquire: the caller reads on the strength of kChanged what was written before the word.
    if (a->load(std::memory_order_acquire) != expected_a ||
        b->load(std::memory_order_acquire) != expected_b) {
      return FutexResult::kChanged;
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return FutexResult::kTimedOut;
    const FutexResult result = futex_wait(a, expected_a, std::min(deadline, now + kSlice));
    if (result != FutexResult::kTimedOut) return result;
  }
}

FutexResult futex_wait_either(const std::atomic<std::uint32_t>* a, std::uint32_t expected_a,
                              const std::atomic<std::uint32_t>* b, std::uint32_t expected_b,
                              Clock::time_point deadline) noexcept {
  // Written once by whoever finds the call missing, read by all; publishes nothing else.
  static std::atomic<bool> missing{false};
  if (!missing.load(std::memory_order_relaxed)) {
    std::array<WaitEntry, 2> entries;
    entries[0].expected = expected_a;
    entries[0].address = reinterpret_cast<std::uintptr_t>(a);
    entries[1].expected = expected_b;
    entries[1].address = reinterpret_cast<std::uintptr_t>(b);
    const timespec until = to_timespec(deadline.time_since_epoch());
    const timespec* timeout = deadline == Clock::time_point::max() ? nullptr : &until;
    const long rc =
        ::syscall(kFutexWaitvNumber, entries.data(), entries.size(), 0, timeout, CLOCK_MONOTONIC);
    const int error = errno;
    // EPERM is how older seccomp profiles refuse calls that they do not know.
    if (rc >= 0 || (error != ENOSYS && error != EPERM)) return result_of(rc, error);
    missing.store(true, std::memory_order_relaxed);
  }
  return futex_wait_either_sliced(a, expected_a, b, expected_b, deadline);
}

void futex_wake_all(const std::atomic<std::uint32_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace imex::os
