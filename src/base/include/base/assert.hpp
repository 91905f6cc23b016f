/// Assertions for our own mistakes; on in every build. Input from outside is checked, never
/// asserted.
#pragma once

namespace imex {
[[noreturn]] void assertion_failed(const char* condition, const char* why, const char* file,
                                   int line) noexcept;
}

/// Stops the process with condition, reason and place: stopping beats continuing wrongly.
#define IMEX_ASSERT(condition, why)                                  \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::imex::assertion_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)

/// The same for per-element loops: only in builds with assertions (not NDEBUG).
#ifdef NDEBUG
#define IMEX_DASSERT(condition, why) static_cast<void>(0)
#else
#define IMEX_DASSERT(condition, why) IMEX_ASSERT(condition, why)
#endif
