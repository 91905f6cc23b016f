/// The ground the shared-memory protocols stand on: atomic accesses, sleeping, time.
///
/// signal_protocol.hpp and slot_protocol.hpp are templates over such a policy. The product
/// instantiates them with HostAtomics; the model checker (src/memory/model) steps the same
/// templates through an instrumented policy, weakening one Site at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <imex/wait.hpp>

#include "os/futex.hpp"

namespace imex::memory {

/// Names each atomic access of the protocols. Without effect at run time; the model checker weakens
/// accesses by it and prints it in traces.
enum class Site : std::uint8_t {
  kSignalAdd,       ///< [A] notify() counts up
  kSignalAbandon,   ///< [A] abandon() sets the flag
  kSignalWaiters,   ///< [A] the producer looks for sleepers
  kSignalPoll,      ///< [P] a spinning waiter looks at the value
  kSignalCountIn,   ///< [B] a waiter is about to sleep
  kSignalRecheck,   ///< [B] ... and looks at the value again
  kSignalCountOut,  ///< a waiter has woken
  kAbortTrip,       ///< [T] the abort word is set
  kAbortPoll,       ///< [U] a waiter looks at the abort word
  kSlotPublish,     ///< [C] the sender tags a slot with its epoch
  kSlotPoll,        ///< [D] the receiver looks for the tag
  kCreditReturn,    ///< [E] the receiver gives a slot back
  kCreditPoll,      ///< [F] the sender looks for free slots
  kWordSend,        ///< [G] the sender stores a word that carries its own readiness
  kWordPoll,        ///< [H] the receiver looks for it
  kWordArm,         ///< [I] the receiver empties the word
  kLaneFence,       ///< [J] once per lane and epoch, between [I] and the next [G]
  kCount,
};

/// Real memory of this host, shared between processes.
struct HostAtomics {
  using Word64 = std::atomic<std::uint64_t>;
  using Word32 = std::atomic<std::uint32_t>;

  /// Loads between two looks at clock and abort word. A steady_clock::now() costs about as much as
  /// 20 loads of a cached line, so 50 keep the loop blind for a third of the time at most, and a
  /// batch is what a wait still spins when ranks outnumber cores.
  static constexpr std::uint32_t kLoadsPerCheck = 50;
  /// The same with a `pause` (40 to 140 cycles) after each load: a check about every microsecond.
  static constexpr std::uint32_t kPausesPerCheck = 16;

  template <class T>
  [[gnu::always_inline]] static T load(const std::atomic<T>& word, std::memory_order order,
                                       Site) noexcept {
    return word.load(order);
  }
  template <class T>
  [[gnu::always_inline]] static void store(std::atomic<T>& word, T value, std::memory_order order,
                                           Site) noexcept {
    word.store(value, order);
  }
  template <class T>
  [[gnu::always_inline]] static T fetch_add(std::atomic<T>& word, T value, std::memory_order order,
                                            Site) noexcept {
    return word.fetch_add(value, order);
  }
  template <class T>
  [[gnu::always_inline]] static T fetch_or(std::atomic<T>& word, T value, std::memory_order order,
                                           Site) noexcept {
    return word.fetch_or(value, order);
  }
  /// Sets `desired` if the word holds `expected`; says whether it did. Relaxed when it did not.
  template <class T>
  [[gnu::always_inline]] static bool compare_exchange(std::atomic<T>& word, T expected, T desired,
                                                      std::memory_order order, Site) noexcept {
    return word.compare_exchange_strong(expected, desired, order, std::memory_order_relaxed);
  }
  [[gnu::always_inline]] static void fence(Site) noexcept {
#ifdef __SANITIZE_THREAD__
    // ThreadSanitizer does not model fences. Read-modify-writes of one word order no less.
    static std::atomic<std::uint64_t> stand_in{0};
    stand_in.fetch_add(1, std::memory_order_acq_rel);
#else
    std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
  }

  [[gnu::always_inline]] static SteadyTime now() noexcept {
    return std::chrono::steady_clock::now();
  }
  [[gnu::always_inline]] static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
  }
  static void yield() noexcept { std::this_thread::yield(); }

  /// Sleeps while the low half of `word` equals that of `expected` and, where there is an abort
  /// word, that one is zero in its low half.
  static os::FutexResult sleep(const Word64& word, std::uint64_t expected, const Word64* abort,
                               SteadyTime deadline) noexcept {
    const auto low = static_cast<std::uint32_t>(expected);
    if (abort == nullptr) return os::futex_wait(os::low_half(word), low, deadline);
    return os::futex_wait_either(os::low_half(word), low, os::low_half(*abort), 0, deadline);
  }
  static void wake_all(const Word64& word) noexcept { os::futex_wake_all(os::low_half(word)); }
};

}  // namespace imex::memory
