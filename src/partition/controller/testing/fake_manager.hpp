/// A fabric manager in memory, for tests of the controller: obeys, refuses, hangs, and changes
/// behind the controller's back. The simulation in tests/sim does far worse to the reconciler
/// alone.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "fabric/manager.hpp"

namespace imex::partition::testing {

/// One domain; outlives the managers that speak for it.
class FakeFabric {
 public:
  /// `trays` of 4 GPUs with uids from `first_uid`, in chassis `chassis`; all in the default
  /// partition.
  FakeFabric(const Uuid& domain, std::string chassis, std::uint64_t first_uid, std::uint32_t trays);

  enum class Trouble : std::uint8_t { kNone, kUnreachable, kRefuse, kHangWithEffect };

  [[nodiscard]] fabric::Snapshot snapshot() const;
  [[nodiscard]] fabric::Outcome<fabric::CreatedPartition> create(
      const fabric::CreatePartition& wanted);
  [[nodiscard]] fabric::Outcome<void> update(const fabric::PartitionTarget& target,
                                             const fabric::MembershipChange& change);
  [[nodiscard]] fabric::Outcome<void> erase(const fabric::PartitionTarget& target);
  void watch(fabric::EventHandler handler);

  // ---- For tests
  void set_trouble(Trouble trouble);
  void set_latency(std::chrono::milliseconds operations);
  /// Somebody else moves the GPU into a partition of their own; told as an event.
  void steal(std::uint64_t uid, bool tell = true);
  /// Somebody else deletes the partition that the GPU is in.
  void drop_partition_of(std::uint64_t uid);
  /// Trays from this one on are off: their GPUs are listed no more.
  void power_off_from(std::uint32_t tray);
  [[nodiscard]] std::string partition_name_of(std::uint64_t uid) const;
  [[nodiscard]] std::size_t partition_count() const;
  [[nodiscard]] std::uint64_t operations() const { return operations_.load(); }
  [[nodiscard]] std::uint64_t observations() const { return observations_.load(); }
  [[nodiscard]] const Uuid& domain() const { return domain_; }

 private:
  friend class FakeManager;
  struct Partition {
    std::string name;
    std::set<std::uint64_t> members;
  };
  [[nodiscard]] std::uint32_t place_of(std::uint64_t uid) const IMEX_REQUIRES(mutex_);
  /// Waits as long as a call takes; what a call meets.
  [[nodiscard]] Trouble meet(const fabric::CallOptions& options);

  const Uuid domain_;
  const std::string chassis_;
  const std::uint64_t first_uid_;
  const std::uint32_t trays_;
  std::atomic<std::uint64_t> operations_ = 0;
  mutable std::atomic<std::uint64_t> observations_ = 0;
  mutable Mutex mutex_;
  CondVar changed_;
  Trouble trouble_ IMEX_GUARDED_BY(mutex_) = Trouble::kNone;
  std::chrono::milliseconds latency_ IMEX_GUARDED_BY(mutex_){0};
  std::map<std::uint32_t, Partition> partitions_ IMEX_GUARDED_BY(mutex_);
  std::uint32_t trays_on_ IMEX_GUARDED_BY(mutex_);
  std::uint32_t next_id_ IMEX_GUARDED_BY(mutex_) = 1;

  Mutex handler_mutex_;
  fabric::EventHandler handler_ IMEX_GUARDED_BY(handler_mutex_);
};

[[nodiscard]] std::unique_ptr<fabric::FabricManager> speak_for(FakeFabric& fabric);

}  // namespace imex::partition::testing
