#include "rack/physical.hpp"

#include <algorithm>

namespace imex::rack {

namespace {

std::uint64_t all_links(const Topology& shape) {
  return shape.links_per_gpu() == 64 ? ~0ULL : (1ULL << shape.links_per_gpu()) - 1;
}

/// The GPUs that a fault names: by tray and module; none named, all.
template <class Use>
void for_each_gpu(const Topology& shape, const Fault& fault, Use use) {
  for (unsigned gpu = 0; gpu < shape.gpu_count(); ++gpu) {
    if (fault.tray && *fault.tray != shape.tray_of_gpu(gpu)) continue;
    if (fault.gpu && *fault.gpu != shape.module_of_gpu(gpu)) continue;
    use(gpu);
  }
}

/// The links of one GPU that a fault names: one by number, those to a chip or a switch tray, or
/// all.
std::uint64_t named_links(const Topology& shape, const Fault& fault, unsigned gpu) {
  std::uint64_t mask = 0;
  for (unsigned link = 0; link < shape.links_per_gpu(); ++link) {
    const unsigned chip = shape.chip_of_link(gpu, link);
    if (fault.link && *fault.link != link + 1) continue;
    if (fault.chip && *fault.chip != chip) continue;
    if (fault.switch_tray && *fault.switch_tray != shape.tray_of_chip(chip)) continue;
    mask |= 1ULL << link;
  }
  return mask;
}

void break_switches(const Topology& shape, const Fault& fault, Physical& physical) {
  const bool dead = fault.text != "degraded";
  for (unsigned chip = 0; chip < shape.chip_count(); ++chip) {
    if (fault.chip && *fault.chip != chip) continue;
    if (fault.switch_tray && *fault.switch_tray != shape.tray_of_chip(chip)) continue;
    Chip& found = physical.chips[chip];
    if (!dead) {
      found.degraded = true;
    } else if (fault.switch_tray && !fault.chip) {
      found.listed = false;
      physical.switch_trays[shape.tray_of_chip(chip)] = false;
    } else {
      found.lost = true;
    }
  }
}

}  // namespace

Physical::Physical(const Topology& shape)
    : gpus(shape.gpu_count()),
      chips(shape.chip_count()),
      switch_trays(shape.switch_tray_count(), true),
      trunks(shape.trunk_count(), true) {}

void Physical::apply(const Topology& shape, const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kLinkDown:
    case FaultKind::kLinkFlap:
      if (fault.trunk) {
        if (*fault.trunk < trunks.size()) trunks[*fault.trunk] = false;
        return;
      }
      for_each_gpu(shape, fault,
                   [&](unsigned gpu) { gpus[gpu].down |= named_links(shape, fault, gpu); });
      return;
    case FaultKind::kContainedError:
      for_each_gpu(shape, fault,
                   [&](unsigned gpu) { gpus[gpu].contained |= named_links(shape, fault, gpu); });
      return;
    case FaultKind::kGpuMissing:
      for_each_gpu(shape, fault, [&](unsigned gpu) {
        if (fault.text == "registering") {
          gpus[gpu].registering = true;
        } else {
          gpus[gpu].present = false;
        }
      });
      return;
    case FaultKind::kSwitchDegraded:
      break_switches(shape, fault, *this);
      return;
    default:
      return;
  }
}

bool Physical::link_up(const Topology& shape, unsigned gpu, unsigned link) const {
  return gpus[gpu].present && (gpus[gpu].down >> link & 1U) == 0 &&
         chips[shape.chip_of_link(gpu, link)].works();
}

bool Physical::trunk_up(const Topology& shape, unsigned trunk) const {
  const unsigned chip = trunk / shape.trunks_per_chip;
  return trunks[trunk] && chips[chip].works() && chips[chip + shape.chips_per_chassis()].works();
}

GpuHealth Physical::gpu_health(const Topology& shape, unsigned gpu, bool strict_links) const {
  const std::uint64_t down = gpus[gpu].down;
  if (down == all_links(shape)) return GpuHealth::kNoNvlink;
  if (down != 0) return strict_links ? GpuHealth::kNoNvlink : GpuHealth::kDegraded;
  for (unsigned link = 0; link < shape.links_per_gpu(); ++link) {
    const Chip& chip = chips[shape.chip_of_link(gpu, link)];
    if (!chip.works() || chip.degraded) return GpuHealth::kDegradedBandwidth;
  }
  return GpuHealth::kHealthy;
}

TrayHealth Physical::compute_tray_health(const Topology& shape, unsigned tray,
                                         bool strict_links) const {
  unsigned listed = 0, without = 0;
  bool healthy = true;
  for (unsigned i = 0; i < shape.gpus_per_tray; ++i) {
    const unsigned gpu = tray * shape.gpus_per_tray + i;
    if (!gpus[gpu].present) {
      healthy = false;
      continue;
    }
    ++listed;
    const GpuHealth health = gpu_health(shape, gpu, strict_links);
    if (health == GpuHealth::kNoNvlink) ++without;
    if (health != GpuHealth::kHealthy) healthy = false;
  }
  if (without == listed && listed != 0) return TrayHealth::kUnhealthy;
  return healthy ? TrayHealth::kHealthy : TrayHealth::kDegraded;
}

SwitchHealth Physical::chip_health(const Topology& shape, unsigned chip) const {
  if (chips[chip].lost) return SwitchHealth::kUnhealthy;
  if (chips[chip].degraded) return SwitchHealth::kMissingNvlink;
  const unsigned chassis = chip / shape.chips_per_chassis();
  const unsigned link = chip % shape.chips_per_chassis();
  const unsigned gpus_per_chassis = shape.compute_trays * shape.gpus_per_tray;
  for (unsigned i = 0; i < gpus_per_chassis; ++i) {
    if (!link_up(shape, chassis * gpus_per_chassis + i, link)) return SwitchHealth::kMissingNvlink;
  }
  for (unsigned i = 0; shape.trunk_count() != 0 && i < shape.trunks_per_chip; ++i) {
    if (!trunk_up(shape, link * shape.trunks_per_chip + i)) return SwitchHealth::kMissingNvlink;
  }
  return SwitchHealth::kHealthy;
}

SwitchHealth Physical::switch_tray_health(const Topology& shape, unsigned tray) const {
  bool any_works = false, all_healthy = true;
  for (unsigned i = 0; i < shape.chips_per_tray; ++i) {
    const SwitchHealth health = chip_health(shape, tray * shape.chips_per_tray + i);
    any_works = any_works || health != SwitchHealth::kUnhealthy;
    all_healthy = all_healthy && health == SwitchHealth::kHealthy;
  }
  if (!any_works) return SwitchHealth::kUnhealthy;
  return all_healthy ? SwitchHealth::kHealthy : SwitchHealth::kMissingNvlink;
}

bool Physical::tray_present(const Topology& shape, unsigned tray) const {
  const auto first = gpus.begin() + tray * shape.gpus_per_tray;
  return std::any_of(first, first + shape.gpus_per_tray,
                     [](const GpuLinks& gpu) { return gpu.present; });
}

bool Physical::switches_complete() const {
  return std::ranges::all_of(chips, [](const Chip& chip) { return chip.works(); });
}

bool Physical::trunks_complete(const Topology& shape) const {
  for (unsigned trunk = 0; trunk < trunks.size(); ++trunk) {
    if (!trunk_up(shape, trunk)) return false;
  }
  return true;
}

}  // namespace imex::rack
