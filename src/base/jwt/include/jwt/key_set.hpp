/// A JSON Web Key Set (RFC 7517): public keys by id. Immutable; copies share the keys.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "jwt/algorithm.hpp"

namespace imex::jwt {

class KeySet {
 public:
  static constexpr std::size_t kBytesMax = 256U << 10U;
  static constexpr std::size_t kKeysMax = 64;

  /// Keys that are for something else (encryption, symmetric, unknown types and curves) are passed
  /// over, as the RFC wants; so are malformed ones and RSA below 2048 bits while there is a good
  /// one beside them. Errors: kInvalidArgument (no key set; only keys that are no good),
  /// kResourceExhausted.
  [[nodiscard]] static Result<KeySet> parse(std::string_view text);

  /// Errors: kNotFound (no key of this id and algorithm; without an id: none, or more than one,
  /// that fits), kPermissionDenied (a key that fits, and a signature that does not).
  [[nodiscard]] Result<void> verify(Algorithm algorithm, std::string_view id, std::string_view text,
                                    std::string_view signature) const;
  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }

  struct Key;

 private:
  std::vector<std::shared_ptr<const Key>> keys_;
};

}  // namespace imex::jwt
