/// The 64 bytes under which an exported allocation is known to other processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <imex/export.h>
#include <imex/result.hpp>

namespace imex {

/// Opaque, unforgeable name of one export. Send the bytes to a peer by any means; the peer imports
/// them through the same channel of the same domain. A handle dies with the process that exported,
/// and with a daemon that does not come back within its lease. Treat it as a secret: together with
/// access to the channel it grants access to the memory. Layout: docs/formats/handle.md.
struct Handle {
  std::array<std::byte, 64> bytes{};

  friend bool operator==(const Handle&, const Handle&) = default;

  /// 128 lower-case hexadecimal digits.
  [[nodiscard]] IMEX_API std::string to_hex() const;
  /// Errors: kInvalidArgument unless exactly 128 hexadecimal digits.
  [[nodiscard]] IMEX_API static Result<Handle> from_hex(std::string_view text);
};
static_assert(sizeof(Handle) == 64);

}  // namespace imex
