/// The keys of one issuer over time: when they are fetched, by whom, and how long they count. Not
/// for other rooms.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "jwt/key_set.hpp"
#include "jwt/verifier.hpp"

namespace imex::jwt {

/// Keys as they were when somebody asked.
struct KeysNow {
  std::shared_ptr<const KeySet> keys;
  std::uint64_t generation = 0;  ///< another number, other keys
};

class IssuerKeys {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  /// `options` outlives this.
  IssuerKeys(const Issuer& issuer, const Verifier::Options& options)
      : issuer_(issuer), options_(options) {}

  /// Fetches first if it is time to. Errors: kUnavailable (no keys).
  [[nodiscard]] Result<KeysNow> current();
  /// For a token whose key is not among `seen`: newer keys, or nothing if it is too early to ask
  /// again.
  [[nodiscard]] std::optional<KeysNow> newer_than(const KeysNow& seen);

 private:
  [[nodiscard]] SteadyTime now() const;
  [[nodiscard]] Result<std::string> fetch_text();
  /// Fetches with the mutex released; one thread at a time.
  void fetch() IMEX_REQUIRES(mutex_);
  void wait_for_other() IMEX_REQUIRES(mutex_);

  const Issuer& issuer_;
  const Verifier::Options& options_;
  Mutex mutex_;
  CondVar fetched_;
  KeysNow now_ IMEX_GUARDED_BY(mutex_);
  bool fetching_ IMEX_GUARDED_BY(mutex_) = false;
  bool tried_ IMEX_GUARDED_BY(mutex_) = false;
  SteadyTime good_at_ IMEX_GUARDED_BY(mutex_);   ///< the last fetch that worked
  SteadyTime tried_at_ IMEX_GUARDED_BY(mutex_);  ///< the last fetch
  Error last_problem_ IMEX_GUARDED_BY(mutex_);
};

}  // namespace imex::jwt
