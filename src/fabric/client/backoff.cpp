#include "fabric/backoff.hpp"

#include <algorithm>

namespace imex::fabric {

void Backoff::failed(Time now) {
  // 2^20 times any sensible first delay is beyond any sensible maximum.
  const std::uint32_t doublings = std::min<std::uint32_t>(failures_, 20);
  const std::int64_t whole = std::max<std::int64_t>(
      2, std::min(options_.first.count() * (std::int64_t{1} << doublings), options_.max.count()));
  const std::int64_t half = whole / 2;
  const auto extra =
      static_cast<std::int64_t>(random_->below(static_cast<std::uint64_t>(whole - half) + 1));
  not_before_ = now + Nanos(half + extra);
  if (failures_ != UINT32_MAX) ++failures_;
}

void Backoff::succeeded() noexcept {
  failures_ = 0;
  not_before_ = Time{INT64_MIN};
}

}  // namespace imex::fabric
