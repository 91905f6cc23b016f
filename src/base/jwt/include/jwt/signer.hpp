/// Makes tokens: for development (`imex up`) and tests. Production tokens come from an identity
/// provider.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"
#include "jwt/algorithm.hpp"
#include "log/secret.hpp"

namespace imex::jwt {

class Signer {
 public:
  /// A fresh key: RSA with 2048 bits, the curve of the algorithm, or Ed25519.
  [[nodiscard]] static Result<Signer> generate(Algorithm algorithm);
  /// Errors: kInvalidArgument (no private key of the algorithm in PEM form).
  [[nodiscard]] static Result<Signer> from_pem(Algorithm algorithm, const log::Secret& pem);

  /// The claims as they are: whoever calls sets iss, exp and the others.
  [[nodiscard]] Result<std::string> sign(const nlohmann::json& claims) const;
  /// The key set with the one public key, as a verifier fetches it.
  [[nodiscard]] std::string key_set() const;
  [[nodiscard]] log::Secret pem() const;
  /// RFC 7638 thumbprint of the public key.
  [[nodiscard]] const std::string& key_id() const noexcept;

  struct State;

 private:
  explicit Signer(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;  ///< shared: copies of a signer have one key
};

}  // namespace imex::jwt
