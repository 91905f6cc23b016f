/// One simulated NVLink domain with its fabric controller: rack, partitions, sessions, faults,
/// events, and what drivers on its trays would report. Pure: no I/O, no threads, no clock; time
/// comes in, randomness is an interface, and the same calls give the same state.
///
/// Thread rule: one caller at a time. Each call first lets pass what became due (advance()).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "rack/fault.hpp"
#include "rack/partition_table.hpp"
#include "rack/physical.hpp"

namespace imex::rack {

struct DomainOptions {
  std::string name = "rack-0";
  unsigned index = 0;  ///< among the domains of one process; part of the identities
  std::uint64_t seed = 1;
  Topology topology;
  Personality personality;
};

/// A GPU as a request names it.
using GpuRef = std::variant<std::uint64_t, GpuPlace>;

struct CreatePartition {
  std::string name;
  std::vector<GpuRef> gpus;
  ResiliencyMode mode = ResiliencyMode::kDefault;
  std::uint32_t groups = 0;
  std::uint32_t id = 0;
};
struct DeletePartition {
  std::uint32_t id = 0;
  std::string name;
};
struct UpdatePartition {
  bool add = true;  ///< false: remove
  std::uint32_t id = 0;
  std::string name;
  std::vector<GpuRef> gpus;
};
using Change = std::variant<CreatePartition, DeletePartition, UpdatePartition>;

struct ChangeResult {
  ReturnCode code = ReturnCode::kSuccess;
  std::uint32_t partition = 0;
};

/// Says that something changed, never what: whoever hears it reads again.
struct Event {
  enum class Kind : std::uint8_t {
    kControlPlane,
    kTopology,
    kPartition,
    kHealth,
    kInitDone,
    kRestarted
  };
  Kind kind = Kind::kTopology;
  std::uint32_t partition = 0;
};

struct GpuView {
  unsigned index = 0;  ///< over the domain, from 0
  std::uint64_t uid = 0;
  GpuPlace place;
  std::uint64_t tray_index = 0;
  unsigned chassis = 0;  ///< position, from 0
  GpuHealth health = GpuHealth::kHealthy;
  std::uint32_t partition = 0;  ///< as lists show it; 0: none
};
struct TrayView {
  unsigned tray = 0;
  TrayPlace place;
  unsigned gpus = 0, allocated = 0;
  TrayHealth health = TrayHealth::kHealthy;
  std::vector<std::uint32_t> partitions;  ///< without duplicates, ascending
};

/// One GPU as NVML shows it on its host.
struct NvmlGpu {
  enum class State : std::uint8_t { kNotSupported, kNotStarted, kInProgress, kCompleted };
  unsigned nvml_index = 0;
  std::uint32_t module = 0;
  std::uint64_t uid = 0;
  State state = State::kInProgress;
  std::optional<Uuid> cluster;  ///< only when completed
  std::uint32_t clique = 0;
  std::uint32_t health_mask = 0;
  std::uint32_t health_summary = 0;  ///< 1 healthy, 2 unhealthy, 3 limited capacity
  /// The switches let it share memory in its clique now. Not NVML's word: what the rack's own nodes
  /// follow, so that memory is withdrawn when a GPU leaves or loses its links.
  bool attached = false;
};

using ConfigFile = std::map<std::string, std::string>;

/// What survives a restart, as plain data.
struct DomainState {
  std::string topology;
  std::uint64_t seed = 0;
  std::vector<Partition> partitions;
  std::uint32_t last_id = 0;
  std::vector<unsigned> tray_generations;
  std::map<std::uint64_t, std::uint32_t> cliques;  ///< GPU uid to the clique its driver holds
  std::map<std::string, ConfigFile> config;
  std::set<unsigned> cages_down;
  std::vector<Fault> faults;  ///< times relative to the moment of saving
};

class Domain {
 public:
  /// `random` must outlive the domain; it decides instance ids and the draws of faults.
  Domain(DomainOptions options, Random& random, Time now);

  // Time, events, revisions.
  void advance(Time now);
  /// When advance() has something to do next.
  [[nodiscard]] Time next_change() const noexcept;
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(events_, {}); }
  /// Counts changes of what is saved or shown.
  [[nodiscard]] std::uint64_t revision() const noexcept { return revision_; }

  // Identity.
  [[nodiscard]] const DomainOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Topology& shape() const noexcept { return options_.topology; }
  [[nodiscard]] const Personality& personality() const noexcept { return options_.personality; }
  [[nodiscard]] const Identities& identities() const noexcept { return ids_; }
  [[nodiscard]] Uuid uuid() const;  ///< as told now: another one under wrong-domain
  [[nodiscard]] Uuid instance() const noexcept { return instance_; }
  [[nodiscard]] std::string chassis_serial(unsigned chassis) const;
  [[nodiscard]] std::string version() const { return personality().version; }
  [[nodiscard]] std::uint32_t major_version() const;

  // Sessions and readiness.
  [[nodiscard]] ReturnCode hello(const std::string& gateway, const std::string& connection,
                                 std::uint32_t major);
  enum class Access : std::uint8_t { kState, kRead, kChange };
  /// What stands against a call before it is looked at.
  [[nodiscard]] ReturnCode admit(const std::string& gateway, const std::string& connection,
                                 Access access);
  [[nodiscard]] bool ready() const noexcept { return !starting_until_; }

  // Changes. Each is all or nothing unless a fault says otherwise.
  [[nodiscard]] ChangeResult change(const Change& change, Time now);
  [[nodiscard]] ReturnCode factory_reset(Time now);
  [[nodiscard]] ReturnCode set_config(const std::map<std::string, ConfigFile>& values);
  [[nodiscard]] const std::map<std::string, ConfigFile>& config() const noexcept { return config_; }
  /// `tray`: switch tray over the domain; `cage` from 1.
  [[nodiscard]] ReturnCode set_cage(unsigned tray, unsigned cage, AdminState state);
  [[nodiscard]] AdminState cage_state(unsigned tray, unsigned cage) const;
  [[nodiscard]] unsigned cages_per_tray() const noexcept;
  [[nodiscard]] unsigned cage_of_trunk(unsigned trunk) const noexcept;  ///< from 1, within its tray

  // Reads, in a stable order.
  [[nodiscard]] std::vector<GpuView> gpus() const;
  [[nodiscard]] std::vector<TrayView> compute_trays() const;
  [[nodiscard]] const Physical& physical() const noexcept { return physical_; }
  /// What lists show: the table, less what a fault hides, plus what lingers. By id.
  [[nodiscard]] std::vector<const Partition*> partitions() const;
  [[nodiscard]] const PartitionTable& table() const noexcept { return table_; }
  [[nodiscard]] PartitionHealth partition_health(const Partition& partition) const;
  [[nodiscard]] ControlPlane control_plane() const;
  [[nodiscard]] ControllerHealth controller_health() const;
  [[nodiscard]] std::uint32_t groups_left() const;
  [[nodiscard]] std::optional<unsigned> find_uid(std::uint64_t uid) const;
  [[nodiscard]] std::optional<unsigned> find_place(const GpuPlace& place) const;
  [[nodiscard]] std::uint64_t uid_of(unsigned gpu) const;
  [[nodiscard]] unsigned tray_generation(unsigned tray) const { return generations_.at(tray); }

  // The hosts.
  [[nodiscard]] std::vector<NvmlGpu> nvml(unsigned tray) const;
  /// Resets one GPU, or with module 0 reboots the whole tray: drivers take up the partition anew.
  void reset_gpu(unsigned tray, std::uint32_t module);

  // Faults.
  [[nodiscard]] Result<std::uint64_t> inject(Fault fault, Time now);
  [[nodiscard]] bool clear_fault(std::uint64_t id, Time now);
  std::size_t clear_faults(std::optional<FaultKind> kind, Time now);
  [[nodiscard]] const FaultSet& faults() const noexcept { return faults_; }
  [[nodiscard]] std::optional<Fault> befalls(FaultKind kind, const CallFacts& call, Time now);
  /// The controller process starts anew: sessions end, another instance id, not ready for `delay`.
  void restart(Time now, Nanos delay);

  // Persistence.
  [[nodiscard]] DomainState save(Time now) const;
  /// Errors: kInvalidArgument: of another rack, or breaks a rule of the table.
  [[nodiscard]] Result<void> restore(const DomainState& state, Time now);

 private:
  struct Resolved {
    std::vector<Member> members;
    PartitionKind kind = PartitionKind::kUndefined;
  };
  struct Late {
    Time due;
    Change change;
  };

  // domain_partitions.cpp
  [[nodiscard]] ReturnCode check(const CreatePartition& request) const;
  [[nodiscard]] ReturnCode check(const DeletePartition& request) const;
  [[nodiscard]] ReturnCode check(const UpdatePartition& request) const;
  [[nodiscard]] ReturnCode check_gpus(const std::vector<GpuRef>& gpus, std::uint32_t target,
                                      bool add) const;
  [[nodiscard]] std::pair<ReturnCode, const Partition*> target(std::uint32_t id,
                                                               const std::string& name) const;
  [[nodiscard]] Resolved resolve(const std::vector<GpuRef>& gpus) const;
  [[nodiscard]] ChangeResult apply(const CreatePartition& request, Time now);
  [[nodiscard]] ChangeResult apply(const DeletePartition& request, Time now);
  [[nodiscard]] ChangeResult apply(const UpdatePartition& request, Time now);
  [[nodiscard]] ChangeResult apply_change(const Change& change, Time now);
  [[nodiscard]] IdAllocation id_allocation() const;
  void drop_partition(std::uint32_t id, Time now);
  void hold_bound(std::uint64_t uid, Time now);
  void make_default_partition();
  // domain_faults.cpp
  [[nodiscard]] Result<void> check_fault(const Fault& fault) const;
  void happen(const Fault& event, Time now);
  void swap_tray(unsigned tray);
  void lose_partitions(const Fault& event);
  void invent_partition(const Fault& event, bool empty);
  void derive_physical(Time now);
  // domain_hosts.cpp
  void drivers_follow();
  [[nodiscard]] NvmlGpu nvml_gpu(unsigned gpu) const;
  // domain.cpp
  void emit(Event::Kind kind, std::uint32_t partition = 0);
  [[nodiscard]] std::string fitted_name(const std::string& name) const;
  void reset_config();

  DomainOptions options_;
  Random& random_;
  Identities ids_;
  Uuid instance_;
  Time now_;

  PartitionTable table_;
  std::vector<unsigned> generations_;                 ///< of each compute tray
  std::unordered_map<std::uint64_t, unsigned> uids_;  ///< to GPU index
  Physical physical_;
  std::map<std::uint64_t, std::uint32_t> cliques_;  ///< what drivers hold; see CliqueChange
  std::map<std::string, ConfigFile> config_;
  std::set<unsigned> cages_down_;  ///< switch tray * 64 + cage

  FaultSet faults_;
  std::map<std::uint64_t, Time> bound_until_;          ///< freed GPUs that still refuse
  std::map<std::uint32_t, Time> hidden_until_;         ///< partitions that lists leave out
  std::vector<std::pair<Partition, Time>> lingering_;  ///< deleted, but listed until then
  std::vector<Late> late_;

  std::set<std::string> gateways_, connections_;  ///< that said Hello
  std::optional<Time> starting_until_;
  std::vector<Event> events_;
  std::uint64_t revision_ = 0;
};

}  // namespace imex::rack
