#include "jwt/verifier.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/mutex.hpp"
#include "base64url.hpp"
#include "issuer_keys.hpp"
#include "json/json.hpp"
#include "openssl.hpp"

namespace imex::jwt {

namespace {

using Value = nlohmann::json;
using WallTime = Verifier::WallTime;

constexpr json::Limits kPartLimits{
    .bytes_max = Verifier::kTokenBytesMax, .depth_max = 16, .values_max = 4096};
/// Beyond this (year 2255) seconds since 1970 stand for "never".
constexpr double kSecondsMax = 9e9;

tl::unexpected<Error> refuse(std::string message) {
  return fail(Errc::kPermissionDenied, std::move(message));
}

/// A token cut at its dots, and what the first part says.
struct Parts {
  std::string_view signed_text;
  std::string_view payload_text;
  std::string signature;
  Algorithm algorithm;
  std::string key_id;
};

Result<Value> part_of(std::string_view text, const char* what) {
  const auto bytes = from_base64url(text);
  if (!bytes) return refuse(fmt::format("the {} of the token is not base64url", what));
  auto value = json::parse(*bytes, what, kPartLimits);
  if (!value || !value->is_object()) {
    return refuse(fmt::format("the {} of the token is no JSON object", what));
  }
  return std::move(*value);
}

bool type_fits(std::string_view type) {
  std::string lower(type);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower == "jwt" || lower == "at+jwt" || lower == "application/at+jwt";
}

Result<Parts> cut(std::string_view token) {
  if (token.size() > Verifier::kTokenBytesMax) return refuse("the token is too long");
  const auto first = token.find('.');
  const auto second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return refuse("a token has three parts");
  }
  IMEX_TRY(const Value header, part_of(token.substr(0, first), "header"));
  const auto algorithm_text = json::required_string(header, "alg");
  const auto algorithm = algorithm_text ? algorithm_from_name(*algorithm_text) : std::nullopt;
  if (!algorithm) return refuse("the token's algorithm is not accepted");
  // An extension that must be understood: we know none.
  if (header.contains("crit")) return refuse("the token asks for an unknown extension");
  const auto type = json::optional_string(header, "typ");
  if (!type || !type_fits(type->value_or("JWT"))) return refuse("not a token for access");
  auto key_id = json::optional_string(header, "kid");
  if (!key_id) return refuse("the token's key id is no string");
  auto signature = from_base64url(token.substr(second + 1));
  if (!signature) return refuse("the signature of the token is not base64url");
  return Parts{token.substr(0, second), token.substr(first + 1, second - first - 1),
               std::move(*signature), *algorithm, key_id->value_or("")};
}

/// Seconds since 1970; nothing if the claim is absent.
Result<std::optional<WallTime>> time_claim(const Value& claims, const char* name) {
  const Value* found = json::find(claims, name);
  if (found == nullptr) return std::optional<WallTime>();
  if (!found->is_number()) return refuse(fmt::format("claim '{}' is no number", name));
  const double seconds = std::clamp(found->get<double>(), 0.0, kSecondsMax);
  return std::optional(WallTime(std::chrono::seconds(static_cast<std::int64_t>(seconds))));
}

/// "a", ["a", "b"] or absent.
Result<std::vector<std::string>> texts_claim(const Value& claims, const char* name) {
  std::vector<std::string> texts;
  const Value* found = json::find(claims, name);
  if (found == nullptr) return texts;
  if (found->is_string()) return std::vector{found->get<std::string>()};
  if (!found->is_array()) return refuse(fmt::format("claim '{}' is no list", name));
  for (const Value& one : *found) {
    if (!one.is_string()) return refuse(fmt::format("claim '{}' is no list of texts", name));
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

Result<std::vector<std::string>> scopes_of(const Value& claims) {
  IMEX_TRY(std::vector<std::string> scopes, texts_claim(claims, "scp"));
  IMEX_TRY(const std::vector<std::string> lists, texts_claim(claims, "scope"));
  for (std::string_view words : lists) {
    while (!words.empty()) {
      const std::string_view word = words.substr(0, words.find(' '));
      words.remove_prefix(std::min(words.size(), word.size() + 1));
      if (!word.empty()) scopes.emplace_back(word);
    }
  }
  return scopes;
}

}  // namespace

struct Verifier::State {
  explicit State(Options chosen) : options(std::move(chosen)) {
    for (const Issuer& issuer : options.issuers) {
      keys.push_back(std::make_unique<IssuerKeys>(issuer, options));
    }
  }

  struct Believed {
    std::shared_ptr<const Token> token;
    std::uint64_t generation;
    std::list<std::string>::iterator use;
  };

  [[nodiscard]] WallTime now() const {
    return options.wall_clock ? options.wall_clock() : std::chrono::system_clock::now();
  }
  [[nodiscard]] Result<std::size_t> issuer_of(const Value& claims) const;
  /// Returns the generation of the keys that the signature held with.
  [[nodiscard]] Result<std::uint64_t> check_signature(std::size_t issuer, const Parts& parts);
  [[nodiscard]] Result<Token> check_claims(std::size_t issuer, Value claims) const;
  [[nodiscard]] std::shared_ptr<const Token> remembered(const std::string& digest);
  void remember(const std::string& digest, std::shared_ptr<const Token> token,
                std::uint64_t generation);

  const Options options;
  std::vector<std::unique_ptr<IssuerKeys>> keys;
  Mutex mutex;
  std::unordered_map<std::string, Believed> cache IMEX_GUARDED_BY(mutex);
  std::list<std::string> uses IMEX_GUARDED_BY(mutex);  ///< digests, latest first
};

Result<std::size_t> Verifier::State::issuer_of(const Value& claims) const {
  const auto name = json::required_string(claims, "iss");
  if (!name) return refuse("the token names no issuer");
  const auto found = std::ranges::find(options.issuers, *name, &Issuer::issuer);
  if (found == options.issuers.end()) return refuse("the token's issuer is not known here");
  return static_cast<std::size_t>(found - options.issuers.begin());
}

Result<std::uint64_t> Verifier::State::check_signature(std::size_t issuer, const Parts& parts) {
  const auto& allowed = options.issuers[issuer].algorithms;
  if (!allowed.empty() && std::ranges::find(allowed, parts.algorithm) == allowed.end()) {
    return refuse("the token's algorithm is not accepted of this issuer");
  }
  IMEX_TRY(KeysNow now, keys[issuer]->current());
  const auto check = [&] {
    return now.keys->verify(parts.algorithm, parts.key_id, parts.signed_text, parts.signature);
  };
  auto held = check();
  if (!held && held.error().code == Errc::kNotFound) {  // a key that is new, perhaps
    if (auto newer = keys[issuer]->newer_than(now)) {
      now = std::move(*newer);
      held = check();
    }
  }
  if (!held) return refuse(std::move(held).error().message);
  return now.generation;
}

Result<Token> Verifier::State::check_claims(std::size_t issuer, Value claims) const {
  const WallTime at = now();
  IMEX_TRY(const auto expires, time_claim(claims, "exp"));
  IMEX_TRY(const auto not_before, time_claim(claims, "nbf"));
  IMEX_TRY(const auto issued, time_claim(claims, "iat"));
  if (!expires) return refuse("the token has no end: claim 'exp' is missing");
  if (at >= *expires + options.clock_skew) return refuse("the token has expired");
  if (not_before && at + options.clock_skew < *not_before) return refuse("the token holds later");
  if (issued && at + options.clock_skew < *issued) return refuse("the token is of the future");
  Token token;
  token.issuer_index = issuer;
  token.expires = *expires;
  IMEX_TRY(token.audiences, texts_claim(claims, "aud"));
  IMEX_TRY(token.scopes, scopes_of(claims));
  auto subject = json::optional_string(claims, "sub");
  if (!subject) return refuse("claim 'sub' is no string");
  token.subject = std::move(*subject).value_or("");
  const auto& wanted = options.issuers[issuer].audiences;
  const bool meant = wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& one) {
                       return std::ranges::find(token.audiences, one) != token.audiences.end();
                     });
  if (!meant) return refuse("the token is for another audience");
  token.claims = std::make_shared<const Value>(std::move(claims));
  return token;
}

std::shared_ptr<const Token> Verifier::State::remembered(const std::string& digest) {
  std::shared_ptr<const Token> token;
  std::uint64_t generation = 0;
  {
    const MutexLock lock(mutex);
    const auto found = cache.find(digest);
    if (found == cache.end()) return nullptr;
    uses.splice(uses.begin(), uses, found->second.use);
    token = found->second.token;
    generation = found->second.generation;
  }
  // Other keys since: the one that signed it may have been withdrawn.
  const auto keys_now = keys[token->issuer_index]->current();
  if (keys_now && keys_now->generation == generation &&
      now() < token->expires + options.clock_skew) {
    return token;
  }
  const MutexLock lock(mutex);
  if (const auto found = cache.find(digest); found != cache.end()) {
    uses.erase(found->second.use);
    cache.erase(found);
  }
  return nullptr;
}

void Verifier::State::remember(const std::string& digest, std::shared_ptr<const Token> token,
                               std::uint64_t generation) {
  if (options.cache_max == 0) return;
  const MutexLock lock(mutex);
  if (const auto found = cache.find(digest); found != cache.end()) {
    found->second.token = std::move(token);
    found->second.generation = generation;
    return;
  }
  if (cache.size() >= options.cache_max) {
    cache.erase(uses.back());
    uses.pop_back();
  }
  uses.push_front(digest);
  cache.emplace(digest, Believed{std::move(token), generation, uses.begin()});
}

Verifier::Verifier(Options options) : state_(std::make_unique<State>(std::move(options))) {}
Verifier::~Verifier() = default;

Result<std::shared_ptr<const Token>> Verifier::verify(std::string_view text) {
  if (text.size() > kTokenBytesMax) return refuse("the token is too long");
  const std::string digest = sha256(text);
  if (auto known = state_->remembered(digest)) return known;
  IMEX_TRY(const Parts parts, cut(text));
  IMEX_TRY(Value claims, part_of(parts.payload_text, "payload"));
  IMEX_TRY(const std::size_t issuer, state_->issuer_of(claims));
  IMEX_TRY(const std::uint64_t generation, state_->check_signature(issuer, parts));
  IMEX_TRY(Token token, state_->check_claims(issuer, std::move(claims)));
  auto shared = std::make_shared<const Token>(std::move(token));
  state_->remember(digest, shared, generation);
  return std::shared_ptr<const Token>(std::move(shared));
}

}  // namespace imex::jwt
