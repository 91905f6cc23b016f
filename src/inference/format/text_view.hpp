/// Bytes of a file as text.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace imex::inference {

[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace imex::inference
