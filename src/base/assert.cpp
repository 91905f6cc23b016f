#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace imex {

void assertion_failed(const char* condition, const char* why, const char* file, int line) noexcept {
  std::fprintf(stderr, "imex: assertion failed: %s (%s) at %s:%d\n", condition, why, file, line);
  std::abort();
}

}  // namespace imex
