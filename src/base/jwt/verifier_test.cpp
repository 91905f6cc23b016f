#include "jwt/verifier.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include "base64url.hpp"
#include "jwt/signer.hpp"
#include "net/http/server.hpp"
#include "openssl.hpp"
#include "os/file.hpp"

namespace imex::jwt {
namespace {

using ::testing::HasSubstr;
using Value = nlohmann::json;
using std::chrono::seconds;

constexpr std::int64_t kNow = 1'800'000'000;

/// One key per algorithm for all tests: RSA keys take a while to make.
const Signer& signer_of(Algorithm algorithm) {
  static std::map<Algorithm, Signer> made;
  auto found = made.find(algorithm);
  if (found == made.end()) {
    found = made.emplace(algorithm, std::move(*Signer::generate(algorithm))).first;
  }
  return found->second;
}

constexpr std::array kAll = {
    Algorithm::kRs256, Algorithm::kRs384, Algorithm::kRs512, Algorithm::kPs256, Algorithm::kPs384,
    Algorithm::kPs512, Algorithm::kEs256, Algorithm::kEs384, Algorithm::kEs512, Algorithm::kEdDsa};

Value claims_now() {
  return {{"iss", "https://id.example"}, {"sub", "user"},     {"aud", "imex"},
          {"exp", kNow + 600},           {"nbf", kNow - 600}, {"scope", "read write"}};
}

std::string token_of(const Value& claims, Algorithm algorithm = Algorithm::kEs256) {
  return *signer_of(algorithm).sign(claims);
}

/// A token with any header, signed by `sign` over its text.
template <class Sign>
std::string crafted(const Value& header, const Value& claims, Sign sign) {
  const std::string text = base64url(header.dump()) + "." + base64url(claims.dump());
  return text + "." + base64url(sign(text));
}

class VerifierTest : public testing::Test {
 protected:
  Verifier& verifier(Algorithm algorithm = Algorithm::kEs256) {
    keys_ = signer_of(algorithm).key_set();
    return started();
  }
  Verifier& started() {
    if (verifier_) return *verifier_;
    if (options_.issuers.empty()) {
      options_.issuers = {{.name = "test", .issuer = "https://id.example", .audiences = {"imex"}}};
    }
    options_.wall_clock = [this] { return Verifier::WallTime(seconds(wall_)); };
    options_.clock = [this] { return std::chrono::steady_clock::time_point(seconds(clock_)); };
    options_.fetch = [this](const Issuer&) -> Result<std::string> {
      ++fetches_;
      if (down_) return fail(Errc::kUnavailable, "down");
      return keys_;
    };
    verifier_ = std::make_unique<Verifier>(options_);
    return *verifier_;
  }
  std::string problem(const std::string& token) {
    const auto found = started().verify(token);
    EXPECT_FALSE(found) << token;
    if (found) return {};
    EXPECT_EQ(found.error().code, Errc::kPermissionDenied) << found.error().to_string();
    return found.error().message;
  }

  Verifier::Options options_;
  std::unique_ptr<Verifier> verifier_;
  std::string keys_ = signer_of(Algorithm::kEs256).key_set();
  std::atomic<std::int64_t> wall_ = kNow, clock_ = 1'000'000;
  std::atomic<int> fetches_ = 0;
  std::atomic<bool> down_ = false;
};

TEST_F(VerifierTest, BelievesEveryAlgorithm) {
  for (const Algorithm algorithm : kAll) {
    verifier_.reset();
    const auto token = verifier(algorithm).verify(token_of(claims_now(), algorithm));
    ASSERT_TRUE(token) << algorithm_name(algorithm) << ": " << token.error().to_string();
    EXPECT_EQ((*token)->subject, "user");
    EXPECT_THAT((*token)->scopes, testing::ElementsAre("read", "write"));
    EXPECT_THAT((*token)->audiences, testing::ElementsAre("imex"));
    EXPECT_EQ((*(*token)->claims)["sub"], "user");
  }
}

TEST_F(VerifierTest, EveryChangedByteIsNoticed) {
  for (const Algorithm algorithm : {Algorithm::kEs256, Algorithm::kRs256, Algorithm::kEdDsa}) {
    verifier_.reset();
    const std::string good = token_of(claims_now(), algorithm);
    ASSERT_TRUE(verifier(algorithm).verify(good));
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = bad[i] == 'A' ? 'B' : 'A';
      EXPECT_FALSE(started().verify(bad)) << algorithm_name(algorithm) << " byte " << i;
      bad = good;
      bad.erase(i, 1);
      EXPECT_FALSE(started().verify(bad)) << algorithm_name(algorithm) << " without byte " << i;
    }
    EXPECT_FALSE(started().verify(good + "A"));
    EXPECT_FALSE(started().verify(good + "="));
    EXPECT_FALSE(started().verify(" " + good));
  }
}

TEST_F(VerifierTest, NoneIsNoAlgorithm) {
  for (const char* name : {"none", "None", "NONE", "nOnE", ""}) {
    const auto nothing = [](const std::string&) { return std::string(); };
    EXPECT_THAT(problem(crafted({{"alg", name}}, claims_now(), nothing)), HasSubstr("algorithm"));
  }
  const auto nothing = [](const std::string&) { return std::string(); };
  EXPECT_THAT(problem(crafted({{"alg", Value::array({"none"})}}, claims_now(), nothing)),
              HasSubstr("algorithm"));
  // The right name, and no signature.
  EXPECT_THAT(problem(crafted({{"alg", "ES256"}}, claims_now(), nothing)), HasSubstr("hold"));
}

/// The public key is known to all: used as the secret of an HMAC it must not sign anything.
TEST_F(VerifierTest, ThePublicKeyIsNoSecret) {
  static_cast<void>(verifier(Algorithm::kRs256));
  const std::string modulus = Value::parse(keys_)["keys"][0]["n"];
  for (const std::string& secret : {keys_, modulus, *from_base64url(modulus)}) {
    const auto hmac = [&](const std::string& text) {
      std::string mac(32, '\0');
      unsigned bytes = 32;
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), octets(text), text.size(),
           octets(mac), &bytes);
      return mac;
    };
    const std::string id = signer_of(Algorithm::kRs256).key_id();
    EXPECT_THAT(problem(crafted({{"alg", "HS256"}, {"kid", id}}, claims_now(), hmac)),
                HasSubstr("algorithm"));
    EXPECT_THAT(problem(crafted({{"alg", "RS256"}, {"kid", id}}, claims_now(), hmac)),
                HasSubstr("hold"));
  }
}

TEST_F(VerifierTest, AKeyInTheTokenIsNotBelieved) {
  const auto stranger = Signer::generate(Algorithm::kEs256);
  ASSERT_TRUE(stranger);
  const Value key = Value::parse(stranger->key_set())["keys"][0];
  // The stranger's signature over a header that carries its key, or names where to fetch it.
  const std::string good = *stranger->sign(claims_now());
  EXPECT_THAT(problem(good), HasSubstr("no key"));
  const auto forged = [&](Value header) {
    header["alg"] = "ES256";
    const auto sign = [&](const std::string& text) {
      const auto pem = stranger->pem();
      const OwnedBio in(
          BIO_new_mem_buf(pem.reveal().data(), static_cast<int>(pem.reveal().size())));
      const OwnedKey own(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
      return *make_signature(own.get(), Algorithm::kEs256, text);
    };
    return crafted(header, claims_now(), sign);
  };
  EXPECT_THAT(problem(forged({{"jwk", key}})), HasSubstr("hold"));
  EXPECT_THAT(problem(forged({{"jku", "https://evil.example/keys"}})), HasSubstr("hold"));
  EXPECT_THAT(problem(forged({{"crit", {"exp"}}, {"exp", 1}})), HasSubstr("extension"));
  EXPECT_THAT(problem(forged({{"typ", "JWE"}})), HasSubstr("access"));
  EXPECT_THAT(problem(forged({{"kid", 7}})), HasSubstr("key id"));
}

TEST_F(VerifierTest, SignaturesOfCurvesAreRawAndNotDer) {
  const Signer& signer = signer_of(Algorithm::kEs256);
  const auto pem = signer.pem();
  const auto der_of = [&](const std::string& text) {
    const OwnedBio in(BIO_new_mem_buf(pem.reveal().data(), static_cast<int>(pem.reveal().size())));
    const OwnedKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
    const OwnedDigestContext context(EVP_MD_CTX_new());
    std::size_t bytes = 128;
    std::string der(bytes, '\0');
    EVP_DigestSignInit_ex(context.get(), nullptr, "SHA256", nullptr, nullptr, key.get(), nullptr);
    EVP_DigestSign(context.get(), octets(der), &bytes, octets(text), text.size());
    der.resize(bytes);
    return der;
  };
  const Value header = {{"alg", "ES256"}, {"kid", signer.key_id()}};
  EXPECT_THAT(problem(crafted(header, claims_now(), der_of)), HasSubstr("hold"));
  // All zeros, which broken verifiers took for good (CVE-2022-21449).
  const auto zeros = [](const std::string&) { return std::string(64, '\0'); };
  EXPECT_THAT(problem(crafted(header, claims_now(), zeros)), HasSubstr("hold"));
}

TEST_F(VerifierTest, TimesHoldWithTheSkewAndNotBeyond) {
  options_.cache_max = 0;
  const auto with = [](const char* name, const Value& value) {
    Value claims = claims_now();
    claims[name] = value;
    return token_of(claims);
  };
  EXPECT_TRUE(verifier().verify(with("exp", kNow - 59)));
  EXPECT_THAT(problem(with("exp", kNow - 60)), HasSubstr("expired"));
  EXPECT_TRUE(started().verify(with("exp", 1e300)));
  EXPECT_TRUE(started().verify(with("exp", static_cast<double>(kNow) + 0.5)));
  EXPECT_THAT(problem(with("exp", -1)), HasSubstr("expired"));
  EXPECT_THAT(problem(with("exp", nullptr)), HasSubstr("'exp' is missing"));
  EXPECT_THAT(problem(with("exp", "later")), HasSubstr("no number"));
  EXPECT_TRUE(started().verify(with("nbf", kNow + 60)));
  EXPECT_THAT(problem(with("nbf", kNow + 61)), HasSubstr("later"));
  EXPECT_THAT(problem(with("iat", kNow + 61)), HasSubstr("future"));
}

TEST_F(VerifierTest, IssuerAndAudienceMustFit) {
  const auto with = [](const char* name, const Value& value) {
    Value claims = claims_now();
    claims[name] = value;
    return token_of(claims);
  };
  EXPECT_THAT(problem(with("iss", "https://id.example/")), HasSubstr("not known"));
  EXPECT_THAT(problem(with("iss", nullptr)), HasSubstr("no issuer"));
  EXPECT_THAT(problem(with("aud", "other")), HasSubstr("audience"));
  EXPECT_THAT(problem(with("aud", nullptr)), HasSubstr("audience"));
  EXPECT_THAT(problem(with("aud", {{"imex", 1}})), HasSubstr("no list"));
  EXPECT_TRUE(started().verify(with("aud", {"other", "imex"})));
}

TEST_F(VerifierTest, AnIssuerMayAllowFewerAlgorithms) {
  options_.issuers = {{.name = "test", .issuer = "https://id.example", .audiences = {}}};
  options_.issuers[0].algorithms = {Algorithm::kRs256};
  EXPECT_THAT(problem(token_of(claims_now())), HasSubstr("not accepted of this issuer"));
}

TEST_F(VerifierTest, AnotherIssuersKeyIsNoKeyOfThisOne) {
  options_.issuers = {{.name = "a", .issuer = "https://id.example"},
                      {.name = "b", .issuer = "https://other.example"}};
  started();
  const std::string other_keys = signer_of(Algorithm::kEdDsa).key_set();
  options_.fetch = [&](const Issuer& issuer) -> Result<std::string> {
    return issuer.name == "a" ? keys_ : other_keys;
  };
  Verifier both(options_);
  EXPECT_TRUE(both.verify(token_of(claims_now())));
  EXPECT_FALSE(both.verify(token_of(claims_now(), Algorithm::kEdDsa)));
  Value claims = claims_now();
  claims["iss"] = "https://other.example";
  const auto token = both.verify(token_of(claims, Algorithm::kEdDsa));
  ASSERT_TRUE(token);
  EXPECT_EQ((*token)->issuer_index, 1U);
}

TEST_F(VerifierTest, BelievedTokensAreRememberedUntilTheyExpire) {
  const std::string good = token_of(claims_now());
  const auto first = verifier().verify(good);
  const auto second = started().verify(good);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);  // one object: it came from the cache
  wall_ = kNow + 660;
  EXPECT_THAT(problem(good), HasSubstr("expired"));
}

TEST_F(VerifierTest, AWithdrawnKeyEndsRememberedTokensToo) {
  const std::string good = token_of(claims_now());
  ASSERT_TRUE(verifier().verify(good));
  const auto fresh = Signer::generate(Algorithm::kEs256);
  ASSERT_TRUE(fresh);
  keys_ = fresh->key_set();
  clock_ += 15 * 60;
  EXPECT_THAT(problem(good), HasSubstr("no key"));
}

TEST_F(VerifierTest, TheCacheIsBounded) {
  options_.cache_max = 4;
  std::vector<std::shared_ptr<const Token>> tokens;
  const auto text = [](int i) {
    Value claims = claims_now();
    claims["n"] = i;
    static std::map<int, std::string> made;
    if (!made.contains(i)) made[i] = token_of(claims);
    return made[i];
  };
  for (int i = 0; i < 5; ++i) tokens.push_back(*started().verify(text(i)));
  EXPECT_EQ(*started().verify(text(4)), tokens[4]);
  EXPECT_NE(*started().verify(text(0)), tokens[0]);  // the oldest had to go
}

TEST_F(VerifierTest, AnUnknownKeyIsLookedForButNotTooOften) {
  ASSERT_TRUE(verifier().verify(token_of(claims_now())));
  EXPECT_EQ(fetches_, 1);
  const auto fresh = Signer::generate(Algorithm::kEs256);
  ASSERT_TRUE(fresh);
  const std::string token = *fresh->sign(claims_now());
  for (int i = 0; i < 100; ++i) EXPECT_THAT(problem(token), HasSubstr("no key"));
  EXPECT_EQ(fetches_, 1);  // just fetched
  clock_ += 30;
  for (int i = 0; i < 100; ++i) EXPECT_THAT(problem(token), HasSubstr("no key"));
  EXPECT_EQ(fetches_, 2);
  keys_ = fresh->key_set();
  clock_ += 30;
  EXPECT_TRUE(started().verify(token));
  EXPECT_EQ(fetches_, 3);
}

TEST_F(VerifierTest, KeysOutliveAnOutageAndNotForEver) {
  ASSERT_TRUE(verifier().verify(token_of(claims_now())));
  down_ = true;
  clock_ += 3600;
  EXPECT_TRUE(started().verify(token_of(claims_now())));
  EXPECT_EQ(fetches_, 2);
  EXPECT_TRUE(started().verify(token_of(claims_now())));
  EXPECT_EQ(fetches_, 2);  // not again within the rest after a failure
  clock_ += 24 * 3600;
  const auto refused = started().verify(token_of(claims_now()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnavailable);
}

TEST_F(VerifierTest, ManyThreadsFetchOnce) {
  static_cast<void>(verifier());
  const std::string token = token_of(claims_now());
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) good += started().verify(token) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
  EXPECT_EQ(fetches_, 1);
}

TEST(VerifierSourcesTest, KeysComeFromAFileAndFromAUrl) {
  const auto folder = os::make_temporary_directory("imex-jwt-");
  ASSERT_TRUE(folder);
  const std::string keys = signer_of(Algorithm::kEs256).key_set();
  std::ofstream(*folder + "/keys.json") << keys;
  net::http::Router router;
  router.add(net::http::Method::kGet, "/id/keys",
             [&](const net::http::Request&) { return net::http::Response::json(200, keys); });
  auto server =
      net::http::Server::start({.listeners = {{.address = "127.0.0.1:0"}}}, std::move(router));
  ASSERT_TRUE(server) << server.error().to_string();
  Value claims = claims_now();
  claims["exp"] = 4e9;
  claims["nbf"] = 0;
  const std::string origin = "http://127.0.0.1:" + std::to_string((*server)->port());
  for (const std::string& source : {*folder + "/keys.json", origin + "/id/keys"}) {
    Verifier verifier(
        {.issuers = {{.name = "t", .issuer = "https://id.example", .key_set = source}}});
    const auto token = verifier.verify(token_of(claims));
    EXPECT_TRUE(token) << source << ": " << token.error().to_string();
  }
  for (const std::string& source : {*folder + "/none.json", origin + "/none"}) {
    Verifier verifier(
        {.issuers = {{.name = "t", .issuer = "https://id.example", .key_set = source}}});
    const auto token = verifier.verify(token_of(claims));
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, Errc::kUnavailable);
  }
  EXPECT_TRUE(os::remove_tree(*folder));
}

TEST(SignerTest, AKeySurvivesBeingWrittenAndRead) {
  for (const Algorithm algorithm : kAll) {
    const Signer& signer = signer_of(algorithm);
    const auto again = Signer::from_pem(algorithm, signer.pem());
    ASSERT_TRUE(again) << algorithm_name(algorithm);
    EXPECT_EQ(again->key_id(), signer.key_id());
    EXPECT_EQ(again->key_set(), signer.key_set());
  }
  EXPECT_FALSE(Signer::from_pem(Algorithm::kRs256, signer_of(Algorithm::kEs256).pem()));
  EXPECT_FALSE(Signer::from_pem(Algorithm::kEs384, signer_of(Algorithm::kEs256).pem()));
  EXPECT_FALSE(Signer::from_pem(Algorithm::kEs256, log::Secret("no key")));
}

}  // namespace
}  // namespace imex::jwt
