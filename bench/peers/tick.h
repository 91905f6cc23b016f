// The ruler that every program is measured with: one clock for all cores, one agreed start for all
// ranks, and the round trip between two cores. Shared memory only, so that the measured library is
// not used by it.
#pragma once

#include <sched.h>
#include <time.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { kMaxRanks = 72, kMaxSamples = 20000, kLineBytes = 128, kWaitSecondsMax = 60 };

// One writer per line: ranks that wait read lines of others and write only their own.
typedef struct {
  _Alignas(kLineBytes) _Atomic uint64_t value;
} Word;

typedef struct {
  Word arrived[kMaxRanks];       // how many times that rank has come to the barrier
  Word start;                    // written by rank 0: the tick at which all leave
  Word count;                    // written by rank 0: samples of the next block
  Word ping;                     // both ranks of the ping-pong write it, in turn
  uint64_t starts[kMaxSamples];  // written by rank 0
  uint64_t ends[][kMaxSamples];  // one row per rank, written by that rank
} Shared;

static inline size_t shared_bytes(int ranks) {
  return sizeof(Shared) + (size_t)ranks * sizeof(uint64_t[kMaxSamples]);
}

static inline uint64_t monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Ticks that all cores agree on: the time stamp counter, read as `imex bench` reads it, so that
// neither side pays for a dearer clock; elsewhere nanoseconds.
static inline uint64_t ticks(void) {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return monotonic_ns();
#endif
}

static inline double ns_per_tick(void) {
  const uint64_t ns = monotonic_ns(), tick = ticks();
  while (monotonic_ns() - ns < 20000000u) {
  }
  return (double)(monotonic_ns() - ns) / (double)(ticks() - tick);
}

static inline void fail(const char* what) {
  fprintf(stderr, "peer_collective: %s\n", what);
  exit(1);
}

// Looks for `value` or more in `word`. Yields where ranks share a core. A peer that died must not
// leave us spinning.
static inline uint64_t wait_for(Word* word, uint64_t value, bool yields) {
  uint64_t seen, looks = 0, begin = 0;
  while ((seen = atomic_load_explicit(&word->value, memory_order_acquire)) < value) {
    if (yields) sched_yield();
    if (++looks % 65536 != 0) continue;
    if (begin == 0) begin = monotonic_ns();
    if (monotonic_ns() - begin > kWaitSecondsMax * 1000000000ull)
      fail("another rank did not arrive within 60 s");
  }
  return seen;
}

static inline void publish(Word* word, uint64_t value) {
  atomic_store_explicit(&word->value, value, memory_order_release);
}

static inline void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    fail("cannot pin to the core: not in the affinity mask");
}

// Round trip of one line between two cores; the best of some batches, since other load only adds to
// it. Both sides call it; `ping` is even before and after.
static inline double round_trip_ns(Word* ping, bool first, double tick_ns) {
  enum { kBatches = 21, kTrips = 200 };
  double best_ns = 1e12;
  // The first may be one turn ahead already; no further without us.
  uint64_t turn = atomic_load_explicit(&ping->value, memory_order_acquire) & ~1ull;
  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t begin = ticks();
    for (int trip = 0; trip < kTrips; ++trip, turn += 2) {
      if (first) publish(ping, turn + 1);
      wait_for(ping, turn + (first ? 2 : 1), false);
      if (!first) publish(ping, turn + 2);
    }
    const double trip_ns = (double)(ticks() - begin) * tick_ns / kTrips;
    best_ns = trip_ns < best_ns ? trip_ns : best_ns;
  }
  return best_ns;
}
