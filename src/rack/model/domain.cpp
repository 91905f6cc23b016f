#include "rack/domain.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace imex::rack {

namespace {

constexpr std::size_t kEventsMax = 4096;  // nobody took them: the oldest say no more than the rest
constexpr std::size_t kSessionsMax = 4096;  // gateway ids and connections that are remembered

/// Keeps a set of names bounded: whoever is forgotten says Hello again.
void remember(std::set<std::string>& names, const std::string& name) {
  if (names.size() >= kSessionsMax) names.clear();
  names.insert(name);
}

Uuid fresh_uuid(Random& random) {
  Uuid id;
  random.fill(id.bytes);
  id.bytes[6] = (id.bytes[6] & std::byte{0x0F}) | std::byte{0x40};  // version 4
  id.bytes[8] = (id.bytes[8] & std::byte{0x3F}) | std::byte{0x80};  // variant
  return id;
}

}  // namespace

Domain::Domain(DomainOptions options, Random& random, Time now)
    : options_(std::move(options)),
      random_(random),
      ids_(options_.seed, options_.index, options_.personality.small_numbers),
      instance_(fresh_uuid(random)),
      now_(now),
      generations_(shape().tray_count(), 0),
      physical_(shape()) {
  for (unsigned gpu = 0; gpu < shape().gpu_count(); ++gpu) uids_.emplace(uid_of(gpu), gpu);
  reset_config();
  if (personality().start_delay.count() != 0) starting_until_ = now + personality().start_delay;
  if (personality().default_partition) make_default_partition();
  drivers_follow();
}

void Domain::reset_config() {
  config_ = {{"fm_config", {{"FABRIC_MODE_RESTART", "0"}, {"TOPOLOGY", shape().name}}},
             {"chassis_mapping", {}},
             {"topology_report", {{"TOPOLOGY", shape().name}}}};
  for (unsigned chassis = 0; chassis < shape().chassis; ++chassis) {
    config_["chassis_mapping"][ids_.chassis_serial(chassis)] = fmt::format("{}", chassis + 1);
  }
}

void Domain::emit(Event::Kind kind, std::uint32_t partition) {
  ++revision_;
  if (events_.size() >= kEventsMax) events_.erase(events_.begin());
  events_.push_back({kind, partition});
}

void Domain::advance(Time now) {
  now_ = std::max(now_, now);
  const bool was_moved = faults_.holds(FaultKind::kFailover) != nullptr;
  for (const Fault& event : faults_.advance(now_, random_)) happen(event, now_);
  if ((faults_.holds(FaultKind::kFailover) != nullptr) != was_moved) restart(now_, Nanos(0));
  for (std::size_t i = 0; i < late_.size();) {
    if (late_[i].due > now_) {
      ++i;
      continue;
    }
    const Change change = std::move(late_[i].change);
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
    static_cast<void>(apply_change(change, now_));  // refused meanwhile: nobody is left to be told
  }
  const auto over = [this](const auto& entry) { return entry.second <= now_; };
  std::erase_if(bound_until_, over);
  if (std::erase_if(hidden_until_, over) + std::erase_if(lingering_, over) != 0) ++revision_;
  if (starting_until_ && *starting_until_ <= now_) {
    starting_until_.reset();
    emit(Event::Kind::kInitDone);
    emit(Event::Kind::kControlPlane);
  }
  derive_physical(now_);
}

Time Domain::next_change() const noexcept {
  Time next = std::min(faults_.next_change(), starting_until_.value_or(kNever));
  for (const Late& late : late_) next = std::min(next, late.due);
  for (const auto& [id, until] : hidden_until_) next = std::min(next, until);
  for (const auto& [partition, until] : lingering_) next = std::min(next, until);
  for (const auto& [id, fault] : faults_.all()) {
    if (fault.kind != FaultKind::kLinkFlap || !fault.begun) continue;
    const Nanos half = half_flap(fault);
    const auto phase = (now_ - fault.starts) / half;
    next = std::min(next, fault.starts + half * (phase + 1));
  }
  return next;
}

Uuid Domain::uuid() const {
  const Fault* wrong = faults_.holds(FaultKind::kWrongDomain);
  if (wrong == nullptr) return ids_.domain_uuid();
  constexpr unsigned kElsewhere = 1'000'000;  // no rack of this process
  return Identities(options_.seed, options_.index + kElsewhere, false).domain_uuid();
}

std::string Domain::chassis_serial(unsigned chassis) const {
  if (const Fault* shared = faults_.holds(FaultKind::kSeveralDomains)) {
    return Identities(options_.seed, shared->number.value_or(0), personality().small_numbers)
        .chassis_serial(chassis);
  }
  return ids_.chassis_serial(chassis);
}

std::uint32_t Domain::major_version() const {
  const Fault* other = faults_.holds(FaultKind::kVersion);
  if (other == nullptr || other->text == "draft-only") return personality().major;
  return other->number.value_or(personality().major + 1);
}

ReturnCode Domain::hello(const std::string& gateway, const std::string& connection,
                         std::uint32_t major) {
  if (gateway.empty()) return ReturnCode::kBadParam;
  if (major != major_version()) return ReturnCode::kVersionMismatch;
  remember(gateways_, gateway);
  remember(connections_, connection);
  return ReturnCode::kSuccess;
}

ReturnCode Domain::admit(const std::string& gateway, const std::string& connection, Access access) {
  const SessionReach reach = personality().session;
  if ((reach == SessionReach::kGateway && !gateways_.contains(gateway)) ||
      (reach == SessionReach::kConnection && !connections_.contains(connection))) {
    return ReturnCode::kConnectionNotValid;
  }
  if (access == Access::kState) return ReturnCode::kSuccess;
  if (starting_until_) return ReturnCode::kNotReady;
  if (access == Access::kChange) {
    if (faults_.holds(FaultKind::kDbError) != nullptr) return ReturnCode::kDbError;
    if (faults_.holds(FaultKind::kDbCorrupt) != nullptr) return ReturnCode::kDbCorruption;
  }
  return ReturnCode::kSuccess;
}

void Domain::restart(Time now, Nanos delay) {
  instance_ = fresh_uuid(random_);
  gateways_.clear();
  connections_.clear();
  bound_until_.clear();
  if (delay.count() != 0) starting_until_ = now + delay;
  emit(Event::Kind::kRestarted);
  emit(Event::Kind::kControlPlane);
}

ReturnCode Domain::factory_reset(Time now) {
  while (!table_.all().empty()) drop_partition(table_.all().begin()->first, now);
  const std::string restart_mode = config_["fm_config"]["FABRIC_MODE_RESTART"];
  if (restart_mode == "0" && personality().default_partition) make_default_partition();
  reset_config();
  cages_down_.clear();
  derive_physical(now);
  drivers_follow();
  emit(Event::Kind::kPartition);
  emit(Event::Kind::kControlPlane);
  return ReturnCode::kSuccess;
}

ReturnCode Domain::set_config(const std::map<std::string, ConfigFile>& values) {
  constexpr std::size_t kValueBytesMax = 4096;
  for (const auto& [file, pairs] : values) {
    const auto known = config_.find(file);
    if (known == config_.end()) return ReturnCode::kBadParam;
    for (const auto& [key, value] : pairs) {
      if (!known->second.contains(key) || value.size() > kValueBytesMax)
        return ReturnCode::kBadParam;
    }
  }
  for (const auto& [file, pairs] : values) {
    for (const auto& [key, value] : pairs) config_[file][key] = value;
  }
  ++revision_;
  return ReturnCode::kSuccess;
}

unsigned Domain::cages_per_tray() const noexcept {
  if (shape().trunk_count() == 0) return 0;
  return shape().chips_per_tray * shape().trunks_per_chip / kCagePorts;
}

unsigned Domain::cage_of_trunk(unsigned trunk) const noexcept {
  const unsigned chip = trunk / shape().trunks_per_chip % shape().chips_per_tray;
  return (chip * shape().trunks_per_chip + trunk % shape().trunks_per_chip) / kCagePorts + 1;
}

ReturnCode Domain::set_cage(unsigned tray, unsigned cage, AdminState state) {
  if (tray >= shape().switch_tray_count() || cage == 0 || cage > cages_per_tray())
    return ReturnCode::kResourceBad;
  if (state != AdminState::kUp && state != AdminState::kDown && state != AdminState::kDiagnostic) {
    return ReturnCode::kBadParam;
  }
  const unsigned key = tray * 64 + cage;
  if (state == AdminState::kDown) {
    cages_down_.insert(key);
  } else {
    cages_down_.erase(key);  // diagnosis leaves links up
  }
  ++revision_;
  derive_physical(now_);
  return ReturnCode::kSuccess;
}

AdminState Domain::cage_state(unsigned tray, unsigned cage) const {
  return cages_down_.contains(tray * 64 + cage) ? AdminState::kDown : AdminState::kUp;
}

std::uint64_t Domain::uid_of(unsigned gpu) const {
  const unsigned tray = shape().tray_of_gpu(gpu);
  return ids_.gpu_uid(tray, shape().module_of_gpu(gpu), generations_[tray]);
}

std::optional<unsigned> Domain::find_uid(std::uint64_t uid) const {
  const auto it = uids_.find(uid);
  if (it == uids_.end() || !physical_.gpus[it->second].present) return std::nullopt;
  return it->second;
}

std::optional<unsigned> Domain::find_place(const GpuPlace& place) const {
  if (place.module == 0 || place.module > shape().gpus_per_tray) return std::nullopt;
  for (unsigned tray = 0; tray < shape().tray_count(); ++tray) {
    if (shape().compute_tray(tray).location != place.location) continue;
    const unsigned gpu = tray * shape().gpus_per_tray + place.module - 1;
    return physical_.gpus[gpu].present ? std::optional(gpu) : std::nullopt;
  }
  return std::nullopt;
}

DomainState Domain::save(Time now) const {
  DomainState state{.topology = shape().name,
                    .seed = options_.seed,
                    .partitions = {},
                    .last_id = table_.last_id(),
                    .tray_generations = generations_,
                    .cliques = cliques_,
                    .config = config_,
                    .cages_down = cages_down_,
                    .faults = {}};
  for (const auto& [id, partition] : table_.all()) state.partitions.push_back(partition);
  for (const auto& [id, fault] : faults_.all()) {
    Fault kept = fault;
    kept.starts = fault.begun ? Time{0} : Time{(fault.starts - now).count()};
    if (fault.ends != kNever) kept.ends = Time{(fault.ends - now).count()};
    state.faults.push_back(std::move(kept));
  }
  return state;
}

Result<void> Domain::restore(const DomainState& state, Time now) {
  const auto bad = [this](std::string_view what) {
    return fail(Errc::kInvalidArgument, fmt::format("saved state of {}: {}", options_.name, what));
  };
  if (state.topology != shape().name || state.seed != options_.seed) {
    return bad("of another topology or seed: use the former options, or forget it");
  }
  if (state.tray_generations.size() != generations_.size()) return bad("wrong number of trays");
  PartitionTable table;
  for (const Partition& partition : state.partitions) {
    if (partition.id == 0 || partition.id > kPartitionIdMax)
      return bad("partition id out of range");
    if (table.find(partition.id) != nullptr) return bad("partition id twice");
    if (partition.name.empty() || partition.name.size() > kNameBytesMax)
      return bad("partition name");
    if (partition.kind > PartitionKind::kByUid) return bad("kind of a partition");
    if (partition.mode > ResiliencyMode::kUserActionRequired) return bad("mode of a partition");
    if (table.find_name(partition.name) != nullptr) return bad("partition name twice");
    if (partition.groups > table.groups_left()) return bad("more multicast groups than there are");
    std::set<std::uint64_t> uids;
    for (const Member& member : partition.members) {
      if (table.owner(member.uid) != 0 || !uids.insert(member.uid).second) return bad("GPU twice");
    }
    table.add(partition);
  }
  table.set_last_id(std::min(state.last_id, kPartitionIdMax));
  for (const Fault& fault : state.faults) IMEX_CHECK_OK(check_fault(fault));
  table_ = std::move(table);
  generations_ = state.tray_generations;
  uids_.clear();
  for (unsigned gpu = 0; gpu < shape().gpu_count(); ++gpu) uids_.emplace(uid_of(gpu), gpu);
  cliques_ = state.cliques;
  config_ = state.config;
  cages_down_ = state.cages_down;
  faults_ = {};
  for (Fault fault : state.faults) {
    fault.starts = now + Nanos(fault.starts.ns);
    if (fault.ends != kNever) fault.ends = now + Nanos(fault.ends.ns);
    IMEX_TRY([[maybe_unused]] const auto id, faults_.add(std::move(fault)));
  }
  advance(now);
  drivers_follow();
  return {};
}

}  // namespace imex::rack
