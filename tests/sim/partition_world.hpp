/// Histories of one NVLink domain: tenants, faults, crashes and lies around the shipped reconciler.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/reconciler/domain_reconciler.hpp"
#include "partition_checker.hpp"
#include "partition_fabric.hpp"
#include "partition_store.hpp"

namespace imex::partition_sim {

struct WorldConfig {
  std::uint64_t seed = 1;
  std::size_t machines = 4;
  std::size_t gpus_per_machine = 2;
  /// The function under test; simulations that break it put another in its place.
  partition::reconciler::Decide decide = &partition::reconciler::decide;
  /// An operation that hangs takes effect at most so much later.
  std::int64_t late_max_ns = 15'000'000'000;
  /// Otherwise only faults that were armed.
  bool random_faults = true;
  bool keep_history = false;
};

class World {
 public:
  explicit World(const WorldConfig& config);

  // ---- One thing happens. Empty, or the rule that it broke.
  std::string step_randomly();
  std::string drive();
  std::string crash();

  /// Faults stop; what must come about comes about, or is named.
  std::string come_to_rest();
  /// Lets the controller work, without faults, until it sleeps.
  std::string settle();

  Store& store() { return store_; }
  Fabric& fabric() { return fabric_; }
  /// The fault of the n-th call from now on, counted from 0.
  void arm(std::size_t calls_ahead, Fault fault) { armed_[calls_made_ + calls_ahead] = fault; }
  void wake();
  [[nodiscard]] std::int64_t now_ns() const { return now_.ns; }
  [[nodiscard]] std::size_t calls_made() const { return calls_made_; }
  [[nodiscard]] const std::string& history() const { return history_; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& marks() const { return marks_; }

 private:
  class QuietRandom final : public Random {
   public:
    explicit QuietRandom(std::uint64_t seed) : dice_(seed) {}
    void fill(std::span<std::byte> out) override;

   private:
    Dice dice_;
  };

  void start_controller();
  void pass_time(std::int64_t ns);
  void observe();
  void execute(const partition::reconciler::Operation& operation);
  void deliver();
  void request();
  void interfere();
  void interfere_with_partition();
  Fault next_fault();
  void event();
  void mark(const std::string& what);
  void note(const std::string& what);
  std::string check();

  WorldConfig config_;
  Dice dice_;
  QuietRandom random_;
  Time now_{1'000'000'000};
  bool faults_;
  bool id_reuse_;
  Store store_;
  Fabric fabric_;
  Checker checker_;
  partition::reconciler::DomainConfig domain_config_;
  std::optional<partition::reconciler::DomainReconciler> controller_;

  bool reachable_ = true;
  bool lied_deeply_ = false;
  std::size_t calls_made_ = 0;
  std::map<std::size_t, Fault> armed_;
  /// Between the two lists of an observation.
  std::optional<partition::reconciler::Observed> half_observed_;
  std::size_t gpus_stale_by_ = 0;
  /// Between a call and its answer.
  std::optional<partition::reconciler::Outcome> answer_;
  std::uint32_t foreign_made_ = 0;
  std::string history_;
  std::map<std::string, std::uint64_t> marks_;
};

struct HistoryResult {
  std::string violation;
  std::string history;
  std::map<std::string, std::uint64_t> marks;
};
/// `steps` random steps, then rest.
[[nodiscard]] HistoryResult run_history(const WorldConfig& config, std::size_t steps);

}  // namespace imex::partition_sim
