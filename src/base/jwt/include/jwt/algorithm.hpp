/// Signature algorithms of JSON Web Tokens: all asymmetric ones, and no other.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace imex::jwt {

/// "none" and the HMACs are not here: a token that names them has no algorithm.
enum class Algorithm : std::uint8_t {
  kRs256,
  kRs384,
  kRs512,
  kPs256,
  kPs384,
  kPs512,
  kEs256,
  kEs384,
  kEs512,
  kEdDsa,
};

[[nodiscard]] std::string_view algorithm_name(Algorithm algorithm) noexcept;
[[nodiscard]] std::optional<Algorithm> algorithm_from_name(std::string_view name) noexcept;

}  // namespace imex::jwt
