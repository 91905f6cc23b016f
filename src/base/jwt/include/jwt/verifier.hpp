/// Decides whether a bearer token is to be believed: signature against the keys of its issuer, and
/// its times and audience.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"
#include "base/time.hpp"
#include "jwt/algorithm.hpp"
#include "net/http/client.hpp"

namespace imex::jwt {

struct Issuer {
  std::string name{};                    ///< ours, for logs and settings
  std::string issuer{};                  ///< the claim "iss", equal byte for byte
  std::string key_set{};                 ///< path of a file, or http(s) URL, of the JWKS
  net::http::ClientTls tls{};            ///< for an https URL
  std::vector<std::string> audiences{};  ///< a token needs one of them; empty: any
  std::vector<Algorithm> algorithms{};   ///< allowed; empty: all
};

/// What a token that was believed says.
struct Token {
  std::size_t issuer_index = 0;  ///< in Options::issuers
  std::string subject{};
  std::vector<std::string> audiences{};
  std::vector<std::string> scopes{};  ///< of "scope" (words) or "scp" (list)
  std::chrono::system_clock::time_point expires{};
  std::shared_ptr<const nlohmann::json> claims{};  ///< all of them; immutable
};

/// Thread-safe. A key set is fetched at first use, again after `refresh_interval`, and when a token
/// names a key that is not in it, at most once per `unknown_key_interval`; one thread fetches, the
/// others go on with the keys they have.
class Verifier {
 public:
  using WallTime = std::chrono::system_clock::time_point;
  static constexpr std::size_t kTokenBytesMax = 16U << 10U;

  struct Options {
    std::vector<Issuer> issuers{};
    std::chrono::seconds clock_skew{60};
    std::size_t cache_max = 4096;  ///< tokens that were believed, by their SHA-256; 0: none
    Nanos refresh_interval = std::chrono::minutes(15);
    Nanos unknown_key_interval = std::chrono::seconds(30);
    Nanos retry_interval = std::chrono::seconds(5);  ///< after a fetch that failed
    Nanos keys_age_max = std::chrono::hours(24);     ///< keys that could not be refreshed
    Nanos fetch_timeout = std::chrono::seconds(5);
    /// A fetch that failed, once per retry; on the thread of a request.
    std::function<void(const Error&)> on_problem{};
    // Replaced in tests.
    std::function<WallTime()> wall_clock{};
    std::function<std::chrono::steady_clock::time_point()> clock{};
    std::function<Result<std::string>(const Issuer&)> fetch{};
  };

  explicit Verifier(Options options);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  /// Errors: kPermissionDenied (not to be believed; the message says why and is fit for the one who
  /// sent it), kUnavailable (no keys of this issuer could be had).
  [[nodiscard]] Result<std::shared_ptr<const Token>> verify(std::string_view token);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::jwt
