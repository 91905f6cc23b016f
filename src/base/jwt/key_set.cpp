#include "jwt/key_set.hpp"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/core_names.h>
#include <openssl/err.h>

#include "base64url.hpp"
#include "json/json.hpp"
#include "openssl.hpp"

namespace imex::jwt {

struct KeySet::Key {
  std::string id;
  std::optional<Algorithm> algorithm;  ///< the only one that it may be used with
  OwnedKey key;
};

namespace {

using Value = nlohmann::json;

constexpr int kRsaBitsMin = 2048, kRsaBitsMax = 16384;
constexpr std::size_t kExponentBytesMax = 8;

/// Octets of a field in base64url.
Result<std::string> octets_of(const Value& key, std::string_view name) {
  IMEX_TRY(const std::string text, json::required_string(key, name));
  auto bytes = from_base64url(text);
  if (!bytes) return fail(std::move(bytes).error().context(fmt::format("'{}'", name)));
  return std::move(*bytes);
}

/// A key from parameters; null if OpenSSL does not take them.
OwnedKey key_from(const char* type, OSSL_PARAM_BLD* builder) {
  const OwnedParams params(OSSL_PARAM_BLD_to_param(builder));
  const OwnedKeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* made = nullptr;
  if (params && context && EVP_PKEY_fromdata_init(context.get()) == 1) {
    EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, params.get());
  }
  ERR_clear_error();
  return OwnedKey(made);
}

Result<OwnedKey> rsa_key(const Value& fields) {
  IMEX_TRY(const std::string modulus, octets_of(fields, "n"));
  IMEX_TRY(const std::string exponent, octets_of(fields, "e"));
  const OwnedBignum n(BN_bin2bn(octets(modulus), static_cast<int>(modulus.size()), nullptr));
  const OwnedBignum e(BN_bin2bn(octets(exponent), static_cast<int>(exponent.size()), nullptr));
  const int bits = BN_num_bits(n.get());
  if (bits < kRsaBitsMin || bits > kRsaBitsMax) {
    return fail(Errc::kInvalidArgument, fmt::format("an RSA key of {} bits: {} to {} are used",
                                                    bits, kRsaBitsMin, kRsaBitsMax));
  }
  const bool odd = BN_is_odd(e.get()) == 1 && BN_is_one(e.get()) == 0;
  if (!odd || exponent.size() > kExponentBytesMax || BN_is_odd(n.get()) == 0) {
    return fail(Errc::kInvalidArgument, "an RSA key that is none: even modulus or odd exponent");
  }
  const OwnedBuilder builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
  return key_from("RSA", builder.get());
}

/// Null: a curve that we have no algorithm for.
Result<OwnedKey> ec_key(const Value& fields) {
  IMEX_TRY(const std::string curve, json::required_string(fields, "crv"));
  for (const Algorithm algorithm : {Algorithm::kEs256, Algorithm::kEs384, Algorithm::kEs512}) {
    const Scheme& scheme = scheme_of(algorithm);
    if (curve != scheme.curve) continue;
    IMEX_TRY(const std::string x, octets_of(fields, "x"));
    IMEX_TRY(const std::string y, octets_of(fields, "y"));
    if (x.size() != scheme.field_bytes || y.size() != scheme.field_bytes) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("coordinates of {} have {} bytes", curve, scheme.field_bytes));
    }
    const std::string point = "\x04" + x + y;  // uncompressed
    const OwnedBuilder builder(OSSL_PARAM_BLD_new());
    OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, scheme.group, 0);
    OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                     point.size());
    OwnedKey key = key_from("EC", builder.get());
    if (!key) return fail(Errc::kInvalidArgument, fmt::format("a point that is not on {}", curve));
    return key;
  }
  return OwnedKey();
}

Result<OwnedKey> edwards_key(const Value& fields) {
  IMEX_TRY(const std::string curve, json::required_string(fields, "crv"));
  const int type = curve == "Ed25519" ? EVP_PKEY_ED25519 : curve == "Ed448" ? EVP_PKEY_ED448 : 0;
  if (type == 0) return OwnedKey();  // X25519 and others agree on keys, they do not sign
  IMEX_TRY(const std::string x, octets_of(fields, "x"));
  return OwnedKey(EVP_PKEY_new_raw_public_key(type, nullptr, octets(x), x.size()));
}

/// Null: a key that is for something else.
Result<std::shared_ptr<const KeySet::Key>> parse_key(const Value& fields) {
  IMEX_TRY(const std::string type, json::required_string(fields, "kty"));
  IMEX_TRY(const auto use, json::optional_string(fields, "use"));
  IMEX_TRY(const auto id, json::optional_string(fields, "kid"));
  IMEX_TRY(const auto algorithm_text, json::optional_string(fields, "alg"));
  std::optional<Algorithm> algorithm;
  if (algorithm_text) algorithm = algorithm_from_name(*algorithm_text);
  const bool other = (use && *use != "sig") || (algorithm_text && !algorithm);
  if (other || (type != "RSA" && type != "EC" && type != "OKP")) return nullptr;
  auto made = type == "RSA" ? rsa_key(fields) : type == "EC" ? ec_key(fields) : edwards_key(fields);
  ERR_clear_error();
  if (!made) return fail(std::move(made).error());
  if (!*made) {
    if (type == "RSA") return fail(Errc::kInvalidArgument, "not an RSA key");
    return nullptr;
  }
  if (algorithm && !fits(made->get(), *algorithm)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("a key of type {} cannot be used with {}", type, *algorithm_text));
  }
  return std::make_shared<const KeySet::Key>(
      KeySet::Key{id.value_or(""), algorithm, std::move(*made)});
}

}  // namespace

Result<KeySet> KeySet::parse(std::string_view text) {
  IMEX_TRY(const Value root,
           json::parse(text, "key set",
                       {.bytes_max = kBytesMax, .depth_max = 8, .values_max = 64 * kKeysMax}));
  const Value* list = json::find(root, "keys");
  if (list == nullptr || !list->is_array()) {
    return fail(Errc::kInvalidArgument, "key set: no list 'keys'",
                "a JWKS looks like {\"keys\": [{\"kty\": \"RSA\", …}]}");
  }
  if (list->size() > kKeysMax) {
    return fail(Errc::kResourceExhausted, fmt::format("key set: more than {} keys", kKeysMax));
  }
  KeySet set;
  std::optional<Error> first_problem;
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto key = parse_key((*list)[i]);
    if (!key && !first_problem) {
      first_problem = std::move(key).error().context(fmt::format("key set: key {}", i));
    }
    if (key && *key) set.keys_.push_back(std::move(*key));
  }
  // One odd key among good ones must not lock everybody out.
  if (set.keys_.empty() && first_problem) return fail(std::move(*first_problem));
  return set;
}

Result<void> KeySet::verify(Algorithm algorithm, std::string_view id, std::string_view text,
                            std::string_view signature) const {
  const Key* chosen = nullptr;
  std::size_t fitting = 0;
  for (const auto& key : keys_) {
    if (!id.empty() && key->id != id) continue;
    if (key->algorithm.value_or(algorithm) != algorithm || !fits(key->key.get(), algorithm)) {
      continue;
    }
    chosen = key.get();
    ++fitting;
  }
  if (fitting != 1) {
    return fail(Errc::kNotFound, fitting == 0
                                     ? "the issuer has no key of this id and algorithm"
                                     : "the token must name its key: several of the issuer's fit");
  }
  if (signature_holds(chosen->key.get(), algorithm, text, signature)) return {};
  return fail(Errc::kPermissionDenied, "the signature does not hold");
}

}  // namespace imex::jwt
