#include "testing/fake_manager.hpp"

#include <algorithm>
#include <stop_token>
#include <utility>

namespace imex::partition::testing {

using fabric::Effect;
using fabric::Failure;
using fabric::NmxCode;

namespace {

tl::unexpected<Failure> refused(NmxCode code, const std::string& what) {
  Failure failure;
  failure.error = fabric::nmx_error(code, what);
  failure.code = code;
  return tl::unexpected(failure);
}
tl::unexpected<Failure> no_answer(Effect effect) {
  Failure failure;
  failure.error = Error{Errc::kDeadlineExceeded, "no answer", {}, kNoRank};
  failure.effect = effect;
  return tl::unexpected(failure);
}
tl::unexpected<Failure> unreachable() {
  Failure failure;
  failure.error = Error{Errc::kUnavailable, "connection refused", {}, kNoRank};
  return tl::unexpected(failure);
}

}  // namespace

FakeFabric::FakeFabric(const Uuid& domain, std::string chassis, std::uint64_t first_uid,
                       std::uint32_t trays)
    : domain_(domain),
      chassis_(std::move(chassis)),
      first_uid_(first_uid),
      trays_(trays),
      trays_on_(trays) {
  Partition all{"Default Partition", {}};
  for (std::uint64_t i = 0; i < std::uint64_t{trays} * 4; ++i) all.members.insert(first_uid + i);
  const MutexLock lock(mutex_);
  partitions_[fabric::kDefaultPartitionId] = std::move(all);
}

std::uint32_t FakeFabric::place_of(std::uint64_t uid) const {
  for (const auto& [id, partition] : partitions_) {
    if (partition.members.contains(uid)) return id;
  }
  return 0;
}

fabric::Snapshot FakeFabric::snapshot() const {
  observations_.fetch_add(1);
  fabric::Snapshot out;
  out.domain_uuid = domain_;
  out.instance = "fake";
  out.control_plane = fabric::ControlPlaneState::kConfigured;
  const MutexLock lock(mutex_);
  for (const auto& [id, partition] : partitions_) {
    fabric::ObservedPartition listed;
    listed.id = id;
    listed.name = partition.name;
    listed.health = fabric::PartitionHealth::kHealthy;
    listed.gpu_uids.assign(partition.members.begin(), partition.members.end());
    out.partitions.push_back(std::move(listed));
  }
  for (std::uint32_t tray = 0; tray < trays_on_; ++tray) {
    fabric::HostPlace place{1, chassis_, tray + 1U, tray, 1};
    out.nodes.push_back({place, fabric::NodeHealth::kHealthy, 4});
    for (std::uint32_t module = 1; module <= 4; ++module) {
      fabric::ObservedGpu gpu;
      gpu.uid = first_uid_ + tray * 4U + module - 1;
      gpu.module_id = module;
      gpu.place = place;
      gpu.health = fabric::GpuHealth::kHealthy;
      if (const std::uint32_t id = place_of(gpu.uid); id != 0) gpu.partition_id = id;
      out.gpus.push_back(std::move(gpu));
    }
  }
  return out;
}

FakeFabric::Trouble FakeFabric::meet(const fabric::CallOptions& options) {
  operations_.fetch_add(1);
  // A cancellation ends the wait, as it ends a call.
  const std::stop_callback wake(options.cancel, [this] { changed_.notify_all(); });
  const MutexLock lock(mutex_);
  const auto until = std::min(options.deadline, std::chrono::steady_clock::now() + latency_);
  while (std::chrono::steady_clock::now() < until && !options.cancel.stop_requested()) {
    if (!changed_.wait_until(mutex_, until)) break;
  }
  return trouble_;
}

fabric::Outcome<fabric::CreatedPartition> FakeFabric::create(
    const fabric::CreatePartition& wanted) {
  const MutexLock lock(mutex_);
  for (const auto& [id, partition] : partitions_) {
    if (partition.name == wanted.name) return refused(NmxCode::kPartitionNameInUse, wanted.name);
  }
  for (const std::uint64_t uid : wanted.gpu_uids) {
    if (place_of(uid) != 0) return refused(NmxCode::kResourceInUse, std::to_string(uid));
  }
  const std::uint32_t id = next_id_++;
  partitions_[id] = {wanted.name, {wanted.gpu_uids.begin(), wanted.gpu_uids.end()}};
  return fabric::CreatedPartition{id, false};
}

fabric::Outcome<void> FakeFabric::update(const fabric::PartitionTarget& target,
                                         const fabric::MembershipChange& change) {
  const MutexLock lock(mutex_);
  const auto at = partitions_.find(target.id);
  if (at == partitions_.end()) return refused(NmxCode::kPartitionIdNotInUse, target.name);
  if (at->second.name != target.name)
    return refused(NmxCode::kPartitionIdNameMismatch, target.name);
  for (const std::uint64_t uid : change.remove) at->second.members.erase(uid);
  for (const std::uint64_t uid : change.add) {
    const std::uint32_t place = place_of(uid);
    if (place != 0 && place != target.id)
      return refused(NmxCode::kResourceInUse, std::to_string(uid));
  }
  at->second.members.insert(change.add.begin(), change.add.end());
  return {};
}

fabric::Outcome<void> FakeFabric::erase(const fabric::PartitionTarget& target) {
  const MutexLock lock(mutex_);
  const auto at = partitions_.find(target.id);
  if (at == partitions_.end()) return {};
  if (at->second.name != target.name)
    return refused(NmxCode::kPartitionIdNameMismatch, target.name);
  partitions_.erase(at);
  return {};
}

void FakeFabric::watch(fabric::EventHandler handler) {
  const MutexLock lock(handler_mutex_);
  handler_ = std::move(handler);
}

void FakeFabric::set_trouble(Trouble trouble) {
  const MutexLock lock(mutex_);
  trouble_ = trouble;
}

void FakeFabric::set_latency(std::chrono::milliseconds operations) {
  const MutexLock lock(mutex_);
  latency_ = operations;
}

void FakeFabric::steal(std::uint64_t uid, bool tell) {
  {
    const MutexLock lock(mutex_);
    for (auto& [id, partition] : partitions_) partition.members.erase(uid);
    partitions_[next_id_] = {"thief-" + std::to_string(next_id_), {uid}};
    ++next_id_;
  }
  const MutexLock lock(handler_mutex_);
  if (tell && handler_) handler_({.kind = fabric::FabricEvent::Kind::kPartition});
}

void FakeFabric::drop_partition_of(std::uint64_t uid) {
  {
    const MutexLock lock(mutex_);
    partitions_.erase(place_of(uid));
  }
  const MutexLock lock(handler_mutex_);
  if (handler_) handler_({.kind = fabric::FabricEvent::Kind::kPartition});
}

void FakeFabric::power_off_from(std::uint32_t tray) {
  {
    const MutexLock lock(mutex_);
    trays_on_ = tray;
  }
  const MutexLock lock(handler_mutex_);
  if (handler_) handler_({.kind = fabric::FabricEvent::Kind::kTopology});
}

std::string FakeFabric::partition_name_of(std::uint64_t uid) const {
  const MutexLock lock(mutex_);
  const std::uint32_t id = place_of(uid);
  return id == 0 ? std::string() : partitions_.at(id).name;
}

std::size_t FakeFabric::partition_count() const {
  const MutexLock lock(mutex_);
  return partitions_.size();
}

class FakeManager final : public fabric::FabricManager {
 public:
  explicit FakeManager(FakeFabric& fabric) : fabric_(fabric) {}
  ~FakeManager() override { fabric_.watch({}); }

  fabric::Outcome<fabric::DomainDescription> describe(const fabric::CallOptions&) override {
    if (trouble() == FakeFabric::Trouble::kUnreachable) return unreachable();
    fabric::DomainDescription out;
    out.domain_uuid = fabric_.domain();
    out.version = "1.0";
    return out;
  }
  fabric::Outcome<fabric::Snapshot> observe(const fabric::CallOptions&) override {
    if (trouble() == FakeFabric::Trouble::kUnreachable) return unreachable();
    return fabric_.snapshot();
  }
  fabric::Outcome<fabric::CreatedPartition> create_partition(
      const fabric::CreatePartition& wanted, const fabric::CallOptions& options) override {
    return change<fabric::CreatedPartition>(options, [&] { return fabric_.create(wanted); });
  }
  fabric::Outcome<void> update_partition(const fabric::PartitionTarget& target,
                                         const fabric::MembershipChange& membership,
                                         const fabric::CallOptions& options) override {
    return change<void>(options, [&] { return fabric_.update(target, membership); });
  }
  fabric::Outcome<void> delete_partition(const fabric::PartitionTarget& target,
                                         const fabric::CallOptions& options) override {
    return change<void>(options, [&] { return fabric_.erase(target); });
  }
  void watch(fabric::EventHandler handler) override { fabric_.watch(std::move(handler)); }

 private:
  FakeFabric::Trouble trouble() {
    const MutexLock lock(fabric_.mutex_);
    return fabric_.trouble_;
  }
  template <class T, class Apply>
  fabric::Outcome<T> change(const fabric::CallOptions& options, Apply apply) {
    switch (fabric_.meet(options)) {
      case FakeFabric::Trouble::kNone:
        return apply();
      case FakeFabric::Trouble::kUnreachable:
        return unreachable();
      case FakeFabric::Trouble::kRefuse:
        return refused(NmxCode::kGenericError, "told to refuse");
      case FakeFabric::Trouble::kHangWithEffect:
        break;
    }
    static_cast<void>(apply());
    return no_answer(Effect::kUnknown);
  }

  FakeFabric& fabric_;
};

std::unique_ptr<fabric::FabricManager> speak_for(FakeFabric& fabric) {
  return std::make_unique<FakeManager>(fabric);
}

}  // namespace imex::partition::testing
