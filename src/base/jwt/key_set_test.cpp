#include "jwt/key_set.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "jwt/signer.hpp"

namespace imex::jwt {
namespace {

using ::testing::HasSubstr;
using Value = nlohmann::json;

/// The RSA and the P-256 key of RFC 7517, appendix A.1.
constexpr const char* kRfcKeys = R"({"keys":[
  {"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
   "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"enc","kid":"1"},
  {"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}]})";

TEST(KeySetTest, ReadsTheExampleOfTheRfcAndPassesOverItsEncryptionKey) {
  const auto set = KeySet::parse(kRfcKeys);
  ASSERT_TRUE(set) << set.error().to_string();
  EXPECT_EQ(set->size(), 1U);
}

/// RFC 8037, appendix A.4: a signature that somebody else made.
TEST(KeySetTest, TheEdwardsExampleOfTheRfcHolds) {
  const auto set = KeySet::parse(
      R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})");
  ASSERT_TRUE(set);
  const std::string text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
  std::string signature =
      "\x86\x0c\x98\xd2\x29\x7f\x30\x60\xa3\x3f\x42\x73\x96\x72\xd6\x1b\x53\xcf\x3a\xde\xfe\xd3\xd3"
      "\xc6\x72\xf3\x20\xdc\x02\x1b\x41\x1e\x9d\x59\xb8\x62\x8d\xc3\x51\xe2\x48\xb8\x8b\x29\x46\x8e"
      "\x0e\x41\x85\x5b\x0f\xb7\xd8\x3b\xb1\x5b\xe9\x02\xbf\xcc\xb8\xcd\x0a\x02";
  EXPECT_TRUE(set->verify(Algorithm::kEdDsa, "", text, signature));
  signature[10] ^= 1;
  EXPECT_EQ(set->verify(Algorithm::kEdDsa, "", text, signature).error().code,
            Errc::kPermissionDenied);
}

TEST(KeySetTest, AKeyServesOnlyItsAlgorithmAndId) {
  const auto signer = Signer::generate(Algorithm::kEs256);
  ASSERT_TRUE(signer);
  const auto set = KeySet::parse(signer->key_set());
  ASSERT_TRUE(set) << set.error().to_string();
  const std::string signature(64, 'x');
  const auto code = [&](Algorithm algorithm, std::string_view id) {
    return set->verify(algorithm, id, "text", signature).error().code;
  };
  EXPECT_EQ(code(Algorithm::kEs256, signer->key_id()), Errc::kPermissionDenied);
  EXPECT_EQ(code(Algorithm::kEs256, ""), Errc::kPermissionDenied);
  EXPECT_EQ(code(Algorithm::kEs384, signer->key_id()), Errc::kNotFound);
  EXPECT_EQ(code(Algorithm::kEdDsa, signer->key_id()), Errc::kNotFound);
  EXPECT_EQ(code(Algorithm::kEs256, "other"), Errc::kNotFound);
}

TEST(KeySetTest, BadKeysAreRefusedAloneAndPassedOverBesideGoodOnes) {
  const auto good = Signer::generate(Algorithm::kEs256);
  ASSERT_TRUE(good);
  const Value good_key = Value::parse(good->key_set())["keys"][0];
  std::vector<std::pair<Value, const char*>> cases;
  const auto with = [&](const char* name, const Value& value) {
    Value key = good_key;
    key[name] = value;
    return key;
  };
  cases.emplace_back(with("x", good_key["y"]), "not on P-256");
  cases.emplace_back(with("x", "AAAA"), "32 bytes");
  cases.emplace_back(with("x", 7), "'x' must be a string");
  cases.emplace_back(with("y", "not base64!"), "base64url");
  cases.emplace_back(with("alg", "ES384"), "cannot be used with ES384");
  cases.emplace_back(with("kty", nullptr), "'kty' is missing");
  cases.emplace_back(Value{{"kty", "RSA"}, {"n", "AQAB"}, {"e", "AQAB"}}, "of 17 bits");
  Value one = Value::parse(kRfcKeys)["keys"][1];
  one["e"] = "AQ";  // 1: every text is its own signature
  cases.emplace_back(one, "exponent");
  cases.emplace_back("text", "'kty' is missing");
  for (const auto& [key, problem] : cases) {
    const auto alone = KeySet::parse(Value{{"keys", {key}}}.dump());
    ASSERT_FALSE(alone) << key;
    EXPECT_THAT(alone.error().message, HasSubstr(problem)) << key;
    const auto beside = KeySet::parse(Value{{"keys", {key, good_key}}}.dump());
    ASSERT_TRUE(beside) << key;
    EXPECT_EQ(beside->size(), 1U);
  }
}

TEST(KeySetTest, KeysForOtherThingsArePassedOver) {
  const auto set = KeySet::parse(R"({"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"HS256"},
    {"kty":"future"},{"kty":"OKP","crv":"X25519","x":"AAAA"},{"kty":"EC","crv":"secp256k1"},
    {"kty":"RSA","alg":"RSA-OAEP"}]})");
  ASSERT_TRUE(set) << set.error().to_string();
  EXPECT_EQ(set->size(), 0U);
}

TEST(KeySetTest, WhatIsNoKeySetOrTooLargeIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"keys":{}})", R"({"keys":[],"keys":[]})"}) {
    EXPECT_EQ(KeySet::parse(text).error().code, Errc::kInvalidArgument) << text;
  }
  const Value many(65, Value{{"kty", "oct"}});
  EXPECT_EQ(KeySet::parse(Value{{"keys", many}}.dump()).error().code, Errc::kResourceExhausted);
}

}  // namespace
}  // namespace imex::jwt
