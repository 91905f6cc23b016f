#include "log/rate_limiter.hpp"

#include <iterator>
#include <utility>

#include "base/assert.hpp"

namespace imex::log {

RateLimiter::RateLimiter(Nanos interval, std::size_t keys_max)
    : interval_(interval), keys_max_(keys_max) {
  IMEX_ASSERT(keys_max > 0, "a limiter without room admits everything");
}

bool RateLimiter::admit(std::string_view key, Time now) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    if (now < found->second->start + interval_) {
      ++found->second->held.count;
      return false;
    }
    const auto entry = found->second;
    if (entry->held.count > 0) ended_.push_back(entry->held);
    by_key_.erase(found);
    entries_.erase(entry);
  }
  if (entries_.size() == keys_max_) drop_oldest();
  entries_.push_back({{std::string(key), 0}, now});
  by_key_.emplace(entries_.back().held.key, std::prev(entries_.end()));
  return true;
}

void RateLimiter::drop_oldest() {
  Entry& oldest = entries_.front();
  by_key_.erase(oldest.held.key);
  if (oldest.held.count > 0) ended_.push_back(std::move(oldest.held));
  entries_.pop_front();
}

std::vector<RateLimiter::Suppressed> RateLimiter::expired(Time now) {
  while (!entries_.empty() && now >= entries_.front().start + interval_) drop_oldest();
  return std::exchange(ended_, {});
}

std::vector<RateLimiter::Suppressed> RateLimiter::drain() {
  while (!entries_.empty()) drop_oldest();
  return std::exchange(ended_, {});
}

}  // namespace imex::log
