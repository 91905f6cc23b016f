#include "os/random.hpp"

#include <sys/random.h>

#include "base/assert.hpp"
#include "syscall.hpp"

namespace imex::os {

void SystemRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = retry([&] { return ::getrandom(out.data(), out.size(), 0); });
    IMEX_ASSERT(got > 0, "getrandom() fails only for a bad buffer or on kernels before 3.17");
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

Uuid random_uuid() {
  Uuid id;
  SystemRandom().fill(id.bytes);
  // RFC 4122, 4.4: the version in the high half of byte 6, the variant in the high bits of byte 8.
  id.bytes[6] = (id.bytes[6] & std::byte{0x0f}) | std::byte{0x40};
  id.bytes[8] = (id.bytes[8] & std::byte{0x3f}) | std::byte{0x80};
  return id;
}

}  // namespace imex::os
