#include "nmxm_copy.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace imex::rack {

DomainCopy copy_domain(DomainHost& host, Time now) {
  MutexLock lock(host.mutex);
  Domain& domain = host.domain;
  domain.advance(now);
  const Topology& shape = domain.shape();
  DomainCopy copy{.uuid = domain.uuid(),
                  .instance = domain.instance(),
                  .name = domain.options().name,
                  .version = domain.version(),
                  .shape = shape,
                  .serials = {},
                  .physical = domain.physical(),
                  .gpus = domain.gpus(),
                  .trays = domain.compute_trays(),
                  .partitions = {},
                  .tray_uids = {},
                  .switch_tray_uids = {},
                  .chip_uids = {},
                  .control_plane = domain.control_plane()};
  for (unsigned i = 0; i < shape.chassis; ++i) copy.serials.push_back(domain.chassis_serial(i));
  for (const Partition* partition : domain.partitions()) {
    copy.partitions.emplace_back(*partition, domain.partition_health(*partition));
  }
  const Identities& ids = domain.identities();
  for (unsigned i = 0; i < shape.tray_count(); ++i)
    copy.tray_uids.push_back(ids.tray_uid(i, domain.tray_generation(i)));
  for (unsigned i = 0; i < shape.switch_tray_count(); ++i)
    copy.switch_tray_uids.push_back(ids.switch_tray_uid(i));
  for (unsigned i = 0; i < shape.chip_count(); ++i) copy.chip_uids.push_back(ids.chip_uid(i));
  return copy;
}

std::string entity_id(Entity kind, const Uuid& domain, unsigned registration,
                      std::uint64_t number) {
  // FNV-1a over the facts, twice with different starts: 96 bits for ids that only must not collide.
  const auto hash = [&](std::uint64_t value) {
    const auto mix = [&value](std::uint64_t word) {
      for (int i = 0; i < 8; ++i) value = (value ^ (word >> (8 * i) & 0xFFU)) * 0x100'0000'01b3ULL;
    };
    mix(static_cast<std::uint64_t>(kind));
    for (const std::byte b : domain.bytes) mix(std::to_integer<std::uint64_t>(b));
    mix(registration);
    mix(number);
    return value;
  };
  return fmt::format("{:016x}{:08x}", hash(0xcbf2'9ce4'8422'2325ULL),
                     hash(0x8422'2325'cbf2'9ce4ULL) & 0xffff'ffffU);
}

bool is_entity_id(std::string_view text) {
  return text.size() == 24 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

}  // namespace imex::rack
