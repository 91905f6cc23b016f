/// Owners of what OpenSSL hands out, and signatures as JWS writes them. Not for other rooms.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include "base/result.hpp"
#include "jwt/algorithm.hpp"

namespace imex::jwt {

template <auto kFree>
struct FreeBy {
  template <class T>
  void operator()(T* pointer) const noexcept {
    kFree(pointer);
  }
};
using OwnedKey = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using OwnedKeyContext = std::unique_ptr<EVP_PKEY_CTX, FreeBy<EVP_PKEY_CTX_free>>;
using OwnedDigestContext = std::unique_ptr<EVP_MD_CTX, FreeBy<EVP_MD_CTX_free>>;
using OwnedBignum = std::unique_ptr<BIGNUM, FreeBy<BN_free>>;
using OwnedBuilder = std::unique_ptr<OSSL_PARAM_BLD, FreeBy<OSSL_PARAM_BLD_free>>;
using OwnedParams = std::unique_ptr<OSSL_PARAM, FreeBy<OSSL_PARAM_free>>;
using OwnedSignature = std::unique_ptr<ECDSA_SIG, FreeBy<ECDSA_SIG_free>>;
using OwnedBio = std::unique_ptr<BIO, FreeBy<BIO_free>>;

enum class Family : std::uint8_t { kRsa, kRsaPss, kEc, kEdwards };

/// What an algorithm needs.
struct Scheme {
  Family family;
  const char* digest;       ///< null: the signature has its own
  const char* curve;        ///< RFC 7518 name; null: no curve, or any of Edwards
  const char* group;        ///< OpenSSL's name of the curve
  std::size_t field_bytes;  ///< of one coordinate
};
[[nodiscard]] const Scheme& scheme_of(Algorithm algorithm) noexcept;

/// Whether `key` is of the type and curve of the algorithm.
[[nodiscard]] bool fits(const EVP_PKEY* key, Algorithm algorithm) noexcept;
[[nodiscard]] bool signature_holds(EVP_PKEY* key, Algorithm algorithm, std::string_view text,
                                   std::string_view signature);
[[nodiscard]] Result<std::string> make_signature(EVP_PKEY* key, Algorithm algorithm,
                                                 std::string_view text);
[[nodiscard]] std::string sha256(std::string_view bytes);

[[nodiscard]] inline const unsigned char* octets(std::string_view bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
[[nodiscard]] inline unsigned char* octets(std::string& bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace imex::jwt
