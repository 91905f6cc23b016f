#include "domain_reader.hpp"

#include <algorithm>

#include "fabric/check.hpp"

namespace imex::fabric::nmxm {
namespace {

/// Ids change only when a domain is registered anew; more than this is not worth remembering.
constexpr std::size_t kRememberedMax = 4 * kDomainGpusMax;

void read_services_into(DomainView& view, const std::vector<ServiceEntry>& services,
                        const Uuid& domain) {
  const ServiceEntry* best = nullptr;
  for (const ServiceEntry& service : services) {
    if (!service.controller || service.domain != domain) continue;
    if (best == nullptr || service.status == "UP") best = &service;
  }
  Snapshot& snapshot = view.snapshot;
  if (best == nullptr) {
    // The list is optional. GPUs are there, so a controller was; whether it is now, a change will
    // tell (503).
    snapshot.control_plane =
        view.gpus.empty() ? ControlPlaneState::kUndefined : ControlPlaneState::kConfigured;
    snapshot.status_text = "NMX-M lists no controller of this domain";
    return;
  }
  snapshot.control_plane = control_plane_of(best->status);
  snapshot.controller_health =
      snapshot.can_change() ? ControllerHealth::kHealthy : ControllerHealth::kUnknown;
  snapshot.instance = best->instance;
  snapshot.status_text =
      best->status_text.empty() ? best->status : best->status + ": " + best->status_text;
  view.version = best->version;
}

bool is_only_domain(const std::vector<ServiceEntry>& services, const Uuid& domain) {
  bool own = false;
  for (const ServiceEntry& service : services) {
    if (!service.controller || !service.domain) continue;
    if (*service.domain != domain) return false;
    own = true;
  }
  return own;
}

std::optional<std::uint64_t> uid_at_location(const Member& member,
                                             const std::vector<ObservedGpu>& gpus) {
  const auto at = std::find_if(gpus.begin(), gpus.end(), [&member](const ObservedGpu& gpu) {
    return gpu.module_id == member.device_id && gpu.place.slot_id == member.slot_id &&
           gpu.place.host_id == member.host_id && gpu.place.chassis_id == member.chassis_id;
  });
  if (at == gpus.end()) return std::nullopt;
  return at->uid;
}

}  // namespace

const OwnPartition* DomainView::find(const PartitionTarget& target) const {
  for (const OwnPartition& own : partitions) {
    const ObservedPartition& partition = own.entry.partition;
    if (target.id != 0 ? partition.id == target.id : partition.name == target.name) return &own;
  }
  return nullptr;
}

Result<DomainView> DomainReader::read(DomainLists lists) {
  DomainView view;
  view.snapshot.domain_uuid = domain_;
  if (uid_of_.size() > kRememberedMax) uid_of_.clear();
  for (GpuEntry& entry : lists.gpus) {
    uid_of_[entry.entity] = entry.gpu.uid;
    view.snapshot.gpus.push_back(entry.gpu);
    view.gpus.emplace(entry.gpu.uid, std::move(entry));
  }
  for (NodeEntry& entry : lists.nodes) {
    entry.node.gpu_count = static_cast<std::uint32_t>(std::count_if(
        view.snapshot.gpus.begin(), view.snapshot.gpus.end(), [&entry](const ObservedGpu& gpu) {
          return gpu.place.chassis_id == entry.node.place.chassis_id &&
                 gpu.place.slot_id == entry.node.place.slot_id &&
                 gpu.place.host_id == entry.node.place.host_id;
        }));
    view.snapshot.nodes.push_back(std::move(entry.node));
  }
  read_services_into(view, lists.services, domain_);

  const bool only = is_only_domain(lists.services, domain_);
  std::vector<std::uint64_t> uncertain;
  for (PartitionEntry& entry : lists.partitions) {
    OwnPartition own{.entry = std::move(entry)};
    bool ours = own.entry.members.empty() && only;
    for (const Member& member : own.entry.members) {
      std::optional<std::uint64_t> uid;
      if (member.entity.empty()) {
        if (member.domain && *member.domain != domain_) continue;
        ours = ours || member.domain.has_value();
        uid = uid_at_location(member, view.snapshot.gpus);
      } else if (const auto at = uid_of_.find(member.entity); at != uid_of_.end()) {
        uid = at->second;
      }
      if (uid) {
        ours = true;
        own.entry.partition.gpu_uids.push_back(*uid);
      } else {
        own.complete = false;
      }
    }
    if (!ours) continue;
    auto& uids = own.entry.partition.gpu_uids;
    std::sort(uids.begin(), uids.end());
    if (!own.complete) uncertain.insert(uncertain.end(), uids.begin(), uids.end());
    view.snapshot.partitions.push_back(own.entry.partition);
    view.partitions.push_back(std::move(own));
  }
  IMEX_CHECK_OK(finish_snapshot(view.snapshot));
  auto& disputed = view.snapshot.disputed;
  disputed = apply({.add = std::move(uncertain)}, std::move(disputed));
  return view;
}

}  // namespace imex::fabric::nmxm
