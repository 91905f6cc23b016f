#include "fabric/simulated_view.hpp"

namespace imex::fabric {

namespace {

/// splitmix64's finaliser: spreads bits, keeps different inputs different.
std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11ebULL;
  return value ^ (value >> 31U);
}

std::uint64_t half(const Uuid& id, std::size_t from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8U | std::to_integer<std::uint64_t>(id.bytes[from + i]);
  }
  return value;
}

/// A UUID of its own for the NVLink domain: that of the IMEX domain, stirred, so that nobody takes
/// one for the other.
Uuid nvlink_domain(const Uuid& imex_domain) noexcept {
  Uuid derived;
  const std::uint64_t low = mix(half(imex_domain, 8) + 0x9e37'79b9'7f4a'7c15ULL);
  const std::uint64_t high = mix(half(imex_domain, 0) ^ low);
  for (std::size_t i = 0; i < 8; ++i) {
    derived.bytes[i] = static_cast<std::byte>(high >> (8 * (7 - i)));
    derived.bytes[8 + i] = static_cast<std::byte>(low >> (8 * (7 - i)));
  }
  return derived;
}

}  // namespace

SimulatedView::SimulatedView(const Uuid& imex_domain, std::uint16_t node, std::uint32_t count) {
  const Partition partition{nvlink_domain(imex_domain), kDefaultCliqueId};
  const std::uint64_t seed = mix(half(imex_domain, 0)) ^ half(imex_domain, 8);
  for (std::uint32_t index = 0; index < count; ++index) {
    // mix() is a bijection: within a domain no two uids are equal. 0 means "no uid" on the wire.
    std::uint64_t uid = mix(seed + (std::uint64_t{node} << 32U | index));
    if (uid == 0) uid = 1;
    gpus_.push_back({index, uid, partition, true});
  }
}

void SimulatedView::subscribe(std::function<void(const std::vector<Gpu>&)> /*on_change*/) {}

}  // namespace imex::fabric
