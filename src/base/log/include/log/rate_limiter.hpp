/// Holds back repetitions: of one text, one line per interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.hpp"

namespace imex::log {

/// Pure: time is an argument. Not thread-safe.
class RateLimiter {
 public:
  /// What was held back for a key.
  struct Suppressed {
    std::string key;
    std::uint64_t count = 0;
  };

  /// Beyond `keys_max` keys the one that started its interval first is forgotten and reported.
  explicit RateLimiter(Nanos interval, std::size_t keys_max = 1024);

  /// Whether a line of this key may go out now. Call expired() first, so that counts come before
  /// it.
  [[nodiscard]] bool admit(std::string_view key, Time now);
  /// Keys whose interval has ended (or which were forgotten) with their counts above 0, oldest
  /// first.
  [[nodiscard]] std::vector<Suppressed> expired(Time now);
  /// All counts above 0, whatever their interval; for the end of a log.
  [[nodiscard]] std::vector<Suppressed> drain();

 private:
  struct Entry {
    Suppressed held;
    Time start;
  };
  using Entries = std::list<Entry>;  // by start of the interval
  void drop_oldest();

  Nanos interval_;
  std::size_t keys_max_;
  Entries entries_;
  std::unordered_map<std::string_view, Entries::iterator> by_key_;  // keys lie in entries_
  std::vector<Suppressed> ended_;
};

}  // namespace imex::log
