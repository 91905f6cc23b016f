#include "openssl.hpp"

#include <array>

#include <openssl/err.h>
#include <openssl/rsa.h>

namespace imex::jwt {

namespace {

constexpr std::array<std::string_view, 10> kNames = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                                     "PS512", "ES256", "ES384", "ES512", "EdDSA"};
constexpr std::array<Scheme, 10> kSchemes = {{
    {Family::kRsa, "SHA256", nullptr, nullptr, 0},
    {Family::kRsa, "SHA384", nullptr, nullptr, 0},
    {Family::kRsa, "SHA512", nullptr, nullptr, 0},
    {Family::kRsaPss, "SHA256", nullptr, nullptr, 0},
    {Family::kRsaPss, "SHA384", nullptr, nullptr, 0},
    {Family::kRsaPss, "SHA512", nullptr, nullptr, 0},
    {Family::kEc, "SHA256", "P-256", "prime256v1", 32},
    {Family::kEc, "SHA384", "P-384", "secp384r1", 48},
    {Family::kEc, "SHA512", "P-521", "secp521r1", 66},
    {Family::kEdwards, nullptr, nullptr, nullptr, 0},
}};

/// r and s of JWS, each filled up with zeros to the length of the field, as DER; empty if they are
/// not.
std::string to_der(std::string_view raw, std::size_t field_bytes) {
  if (raw.size() != 2 * field_bytes) return {};
  const OwnedSignature pair(ECDSA_SIG_new());
  BIGNUM* r = BN_bin2bn(octets(raw), static_cast<int>(field_bytes), nullptr);
  BIGNUM* s = BN_bin2bn(octets(raw.substr(field_bytes)), static_cast<int>(field_bytes), nullptr);
  ECDSA_SIG_set0(pair.get(), r, s);  // owns both from here
  std::string der(static_cast<std::size_t>(std::max(0, i2d_ECDSA_SIG(pair.get(), nullptr))), '\0');
  unsigned char* at = octets(der);
  i2d_ECDSA_SIG(pair.get(), &at);
  return der;
}

std::string to_raw(std::string_view der, std::size_t field_bytes) {
  const unsigned char* at = octets(der);
  const OwnedSignature pair(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
  if (!pair) return {};
  std::string raw(2 * field_bytes, '\0');
  const int bytes = static_cast<int>(field_bytes);
  BN_bn2binpad(ECDSA_SIG_get0_r(pair.get()), octets(raw), bytes);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair.get()), octets(raw) + field_bytes, bytes);
  return raw;
}

bool set_padding(EVP_PKEY_CTX* context, const Scheme& scheme) {
  if (scheme.family == Family::kRsa) {
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
  }
  if (scheme.family != Family::kRsaPss) return true;
  return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
         EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1;
}

}  // namespace

std::string_view algorithm_name(Algorithm algorithm) noexcept {
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::optional<Algorithm> algorithm_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

const Scheme& scheme_of(Algorithm algorithm) noexcept {
  return kSchemes[static_cast<std::size_t>(algorithm)];
}

bool fits(const EVP_PKEY* key, Algorithm algorithm) noexcept {
  const Scheme& scheme = scheme_of(algorithm);
  switch (scheme.family) {
    case Family::kRsa:
    case Family::kRsaPss:
      return EVP_PKEY_is_a(key, "RSA") == 1;
    case Family::kEdwards:
      return EVP_PKEY_is_a(key, "ED25519") == 1 || EVP_PKEY_is_a(key, "ED448") == 1;
    case Family::kEc:
      break;
  }
  std::array<char, 64> group{};
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1 &&
         std::string_view(group.data()) == scheme.group;
}

bool signature_holds(EVP_PKEY* key, Algorithm algorithm, std::string_view text,
                     std::string_view signature) {
  const Scheme& scheme = scheme_of(algorithm);
  std::string der;
  if (scheme.family == Family::kEc) {
    der = to_der(signature, scheme.field_bytes);
    if (der.empty()) return false;
    signature = der;
  }
  const OwnedDigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* key_context = nullptr;  // belongs to `context`
  const bool holds = EVP_DigestVerifyInit_ex(context.get(), &key_context, scheme.digest, nullptr,
                                             nullptr, key, nullptr) == 1 &&
                     set_padding(key_context, scheme) &&
                     EVP_DigestVerify(context.get(), octets(signature), signature.size(),
                                      octets(text), text.size()) == 1;
  ERR_clear_error();
  return holds;
}

Result<std::string> make_signature(EVP_PKEY* key, Algorithm algorithm, std::string_view text) {
  const Scheme& scheme = scheme_of(algorithm);
  const OwnedDigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* key_context = nullptr;
  std::size_t bytes = 0;
  std::string signature;
  bool made = EVP_DigestSignInit_ex(context.get(), &key_context, scheme.digest, nullptr, nullptr,
                                    key, nullptr) == 1 &&
              set_padding(key_context, scheme) &&
              EVP_DigestSign(context.get(), nullptr, &bytes, octets(text), text.size()) == 1;
  if (made) {
    signature.resize(bytes);
    made = EVP_DigestSign(context.get(), octets(signature), &bytes, octets(text), text.size()) == 1;
  }
  ERR_clear_error();
  if (!made) return fail(Errc::kInternal, "sign a token: OpenSSL refused");
  signature.resize(bytes);
  return scheme.family == Family::kEc ? to_raw(signature, scheme.field_bytes)
                                      : std::move(signature);
}

std::string sha256(std::string_view bytes) {
  std::string digest(32, '\0');
  EVP_Digest(bytes.data(), bytes.size(), octets(digest), nullptr, EVP_sha256(), nullptr);
  return digest;
}

}  // namespace imex::jwt
