/// What the controller's store and API would do, as little as the simulation needs: tenants take
/// and give up machines, say where GPUs belong, and read answers; the journal survives crashes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "partition/reconciler/domain_reconciler.hpp"
#include "partition_checker.hpp"

namespace imex::partition_sim {

class Store {
 public:
  Store(const Uuid& domain, std::size_t machines, std::size_t gpus_per_machine,
        std::int64_t interval_ns);

  // ---- Requests of tenants; false: the API refuses
  void create_partition(std::uint8_t tenant);
  bool delete_partition(std::size_t index);
  bool take(std::size_t machine, std::uint8_t tenant);
  bool give_up(std::size_t machine);
  /// Puts one GPU of a held machine where `choice` says, among the tenant's live partitions or
  /// none.
  bool put(std::size_t machine, std::size_t gpu, std::uint64_t choice);

  [[nodiscard]] std::size_t machine_count() const { return machines_.size(); }
  [[nodiscard]] std::size_t partition_count() const { return partitions_.size(); }
  [[nodiscard]] std::vector<std::uint64_t> gpus() const;
  [[nodiscard]] const Uuid& partition_id(std::size_t index) const { return partitions_[index].id; }
  [[nodiscard]] bool is_offered(std::size_t machine) const { return machines_[machine].offered; }

  // ---- The reconciler's side
  [[nodiscard]] partition::reconciler::Desired desired() const;
  /// False: the logical partition was deleted, and the operation would add to it.
  bool journal(const partition::reconciler::JournalEntry& entry, std::int64_t now_ns);
  [[nodiscard]] std::vector<partition::reconciler::Operation> in_doubt(
      std::int64_t now_ns, std::int64_t window_ns) const;
  void report(const partition::reconciler::Report& report);

  [[nodiscard]] Answers answers(std::int64_t now_ns) const;

 private:
  struct LogicalPartition {
    Uuid id;
    std::uint8_t tenant = 0;
    bool deleted = false;
    bool gone = false;
  };
  struct Gpu {
    std::uint64_t uid = 0;
    std::size_t wanted = kNone;
    Shown shown = Shown::kPending;
    std::int64_t observed_ns = 0;
  };
  struct Machine {
    std::string id;
    std::uint8_t tenant = 0;
    bool releasing = false;
    bool offered = false;
    bool known = false;
    std::uint64_t changed = 0;
    std::vector<Gpu> gpus;
  };
  struct Line {
    partition::reconciler::JournalEntry entry;
    std::int64_t at_ns = 0;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void report_gpu(Machine& machine, const partition::reconciler::GpuStatus& status,
                  const partition::reconciler::Report& report);

  Uuid domain_;
  std::int64_t interval_ns_;
  std::uint64_t revision_ = 1;
  std::vector<LogicalPartition> partitions_;
  std::vector<Machine> machines_;
  /// A line per attempt, in the order of their beginnings.
  std::vector<Line> journal_;
  std::vector<partition::reconciler::OwnedPartition> owned_;
};

}  // namespace imex::partition_sim
