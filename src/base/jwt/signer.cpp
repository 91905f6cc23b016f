#include "jwt/signer.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base64url.hpp"
#include "json/json.hpp"
#include "openssl.hpp"

namespace imex::jwt {

struct Signer::State {
  Algorithm algorithm;
  OwnedKey key;
  nlohmann::json public_key;  ///< JWK without its id
  std::string id;
};

namespace {

int no_phrase(char*, int, int, void*) { return -1; }

std::string number_field(const EVP_PKEY* key, const char* name, std::size_t bytes = 0) {
  BIGNUM* found = nullptr;
  EVP_PKEY_get_bn_param(key, name, &found);
  const OwnedBignum number(found);
  if (!number) return {};
  const auto needed = static_cast<std::size_t>(BN_num_bytes(number.get()));
  std::string out(std::max(bytes, needed), '\0');
  BN_bn2binpad(number.get(), octets(out), static_cast<int>(out.size()));
  return base64url(out);
}

/// The members that RFC 7638 takes a thumbprint of, and no others: nlohmann writes them in order.
nlohmann::json public_members(const EVP_PKEY* key, const Scheme& scheme) {
  switch (scheme.family) {
    case Family::kRsa:
    case Family::kRsaPss:
      return {{"kty", "RSA"},
              {"n", number_field(key, OSSL_PKEY_PARAM_RSA_N)},
              {"e", number_field(key, OSSL_PKEY_PARAM_RSA_E)}};
    case Family::kEc:
      return {{"kty", "EC"},
              {"crv", scheme.curve},
              {"x", number_field(key, OSSL_PKEY_PARAM_EC_PUB_X, scheme.field_bytes)},
              {"y", number_field(key, OSSL_PKEY_PARAM_EC_PUB_Y, scheme.field_bytes)}};
    case Family::kEdwards:
      break;
  }
  std::size_t bytes = 0;
  EVP_PKEY_get_raw_public_key(key, nullptr, &bytes);
  std::string raw(bytes, '\0');
  EVP_PKEY_get_raw_public_key(key, octets(raw), &bytes);
  return {{"kty", "OKP"},
          {"crv", EVP_PKEY_is_a(key, "ED448") == 1 ? "Ed448" : "Ed25519"},
          {"x", base64url(raw)}};
}

OwnedKey fresh_key(const Scheme& scheme) {
  switch (scheme.family) {
    case Family::kRsa:
    case Family::kRsaPss:
      return OwnedKey(EVP_RSA_gen(2048));
    case Family::kEc:
      return OwnedKey(EVP_EC_gen(scheme.group));
    case Family::kEdwards:
      break;
  }
  return OwnedKey(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
}

std::shared_ptr<const Signer::State> state_of(Algorithm algorithm, OwnedKey key) {
  nlohmann::json members = public_members(key.get(), scheme_of(algorithm));
  std::string id = base64url(sha256(json::text_of(members)));
  return std::make_shared<const Signer::State>(
      Signer::State{algorithm, std::move(key), std::move(members), std::move(id)});
}

}  // namespace

Result<Signer> Signer::generate(Algorithm algorithm) {
  OwnedKey key = fresh_key(scheme_of(algorithm));
  ERR_clear_error();
  if (!key) return fail(Errc::kInternal, "generate a key: OpenSSL refused");
  return Signer(state_of(algorithm, std::move(key)));
}

Result<Signer> Signer::from_pem(Algorithm algorithm, const log::Secret& pem) {
  const std::string& text = pem.reveal();
  const OwnedBio in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  OwnedKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_phrase, nullptr));
  ERR_clear_error();
  if (!key || !fits(key.get(), algorithm)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("not an unencrypted private key for {} in PEM form",
                            algorithm_name(algorithm)));
  }
  return Signer(state_of(algorithm, std::move(key)));
}

Result<std::string> Signer::sign(const nlohmann::json& claims) const {
  const nlohmann::json header = {
      {"alg", algorithm_name(state_->algorithm)}, {"kid", state_->id}, {"typ", "JWT"}};
  const std::string text =
      base64url(json::text_of(header)) + "." + base64url(json::text_of(claims));
  IMEX_TRY(const std::string signature, make_signature(state_->key.get(), state_->algorithm, text));
  return text + "." + base64url(signature);
}

std::string Signer::key_set() const {
  nlohmann::json key = state_->public_key;
  key["kid"] = state_->id;
  key["alg"] = algorithm_name(state_->algorithm);
  key["use"] = "sig";
  return json::text_of({{"keys", nlohmann::json::array({std::move(key)})}});
}

log::Secret Signer::pem() const {
  const OwnedBio out(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(out.get(), state_->key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return log::Secret(std::string(data, static_cast<std::size_t>(std::max(0L, size))));
}

const std::string& Signer::key_id() const noexcept { return state_->id; }

}  // namespace imex::jwt
