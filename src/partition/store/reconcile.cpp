// The reconciler's side of the store: its reads, and its writes under a term of leadership.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "os/random.hpp"
#include "store_state.hpp"

namespace imex::partition {
namespace {

const Actor kReconciler{"reconciler", ""};

template <class T>
Result<std::vector<T>> all_of(ReadTransaction& t, Field field, std::vector<std::string> values) {
  if (values.empty()) return std::vector<T>();
  ListQuery query;
  query.filters.push_back({field, std::move(values)});
  return t.list<T>(query);
}

Result<std::optional<PhysicalPartition>> physical_of(ReadTransaction& t, const DomainId& domain,
                                                     std::uint32_t fabric_id) {
  IMEX_TRY(auto rows, all_of<PhysicalPartition>(t, Field::kDomain, {domain.to_string()}));
  for (PhysicalPartition& row : rows)
    if (row.fabric_id == fabric_id) return std::optional(std::move(row));
  return std::optional<PhysicalPartition>();
}

void add_error(std::optional<LastError>& error, const std::string& message, WallTime at) {
  const std::uint64_t count = error ? error->count : 0;
  error = LastError{message, at, count + 1};
}

// ---- Observation -------------------------------------------------------------------------------

/// A host as the fabric shows it: chassis, slot, host.
std::string machine_name(const DomainId& domain, const ObservedGpu& gpu) {
  return fmt::format("{}.{}.{}",
                     gpu.chassis_serial.empty() ? domain.to_string() : gpu.chassis_serial,
                     gpu.slot_id, gpu.host_id);
}

/// A site with a single type of that many GPUs leaves no choice for a new machine.
Result<std::optional<InstanceTypeId>> only_type(ReadTransaction& t, const SiteId& site,
                                                std::size_t gpus) {
  IMEX_TRY(const auto types, all_of<InstanceType>(t, Field::kSite, {site.to_string()}));
  std::optional<InstanceTypeId> found;
  for (const InstanceType& type : types) {
    if (type.nvlink_gpus != gpus) continue;
    if (found) return std::optional<InstanceTypeId>();
    found = type.id;
  }
  return found;
}

Result<void> store_machine(WriteTransaction& t, const SiteId& site, const std::string& name,
                           const DomainObservation& seen,
                           const std::vector<const ObservedGpu*>& gpus) {
  IMEX_TRY(std::optional<Machine> known, t.find<Machine>(MachineId{name}));
  Machine machine = known.value_or(Machine{});
  const ObservedGpu& first = *gpus.front();
  machine.id = MachineId{name};
  machine.domain = seen.domain;
  machine.chassis_serial = first.chassis_serial;
  machine.tray_index = first.tray_index;
  machine.slot_id = first.slot_id;
  machine.host_id = first.host_id;
  machine.observed_at = seen.at;
  machine.gpus.clear();
  for (const ObservedGpu* gpu : gpus)
    machine.gpus.push_back({gpu->uid, gpu->device_instance, gpu->health, gpu->fabric_partition});
  std::sort(machine.gpus.begin(), machine.gpus.end(),
            [](const Gpu& a, const Gpu& b) { return a.device_instance < b.device_instance; });
  if (known) {
    // Listed again: not yet known to be clean.
    if (machine.status == Status::kUnknown)
      machine.status = machine.instance ? Status::kInUse : Status::kInitializing;
    IMEX_TRY([[maybe_unused]] const bool changed, t.update(machine, "listed again"));
    return {};
  }
  machine.site = site;
  IMEX_TRY(machine.instance_type, only_type(t, site, machine.gpus.size()));
  return t.insert(machine, "found in the fabric manager's list");
}

Result<void> store_machines(WriteTransaction& t, const SiteId& site,
                            const DomainObservation& seen) {
  std::map<std::string, std::vector<const ObservedGpu*>> by_machine;
  for (const ObservedGpu& gpu : seen.gpus)
    by_machine[machine_name(seen.domain, gpu)].push_back(&gpu);
  for (const auto& [name, gpus] : by_machine)
    IMEX_CHECK_OK(store_machine(t, site, name, seen, gpus));
  IMEX_TRY(auto known, all_of<Machine>(t, Field::kDomain, {seen.domain.to_string()}));
  for (Machine& machine : known) {
    if (by_machine.contains(machine.id.text) || machine.status == Status::kUnknown) continue;
    machine.status = Status::kUnknown;
    IMEX_TRY([[maybe_unused]] const bool changed,
             t.update(machine, "no longer in the fabric manager's list"));
  }
  return {};
}

Result<void> refresh_physical(WriteTransaction& t, const DomainObservation& seen) {
  IMEX_TRY(auto ours, all_of<PhysicalPartition>(t, Field::kDomain, {seen.domain.to_string()}));
  for (PhysicalPartition& row : ours)
    for (const ObservedPartition& partition : seen.partitions)
      if (partition.fabric_id == row.fabric_id) {
        row.gpu_uids = partition.gpu_uids;
        row.health = partition.health;
        row.multicast_groups = partition.multicast_groups;
        IMEX_TRY([[maybe_unused]] const bool changed, t.update(row));
      }
  return {};
}

Result<void> store_observation(WriteTransaction& t, const EndpointId& endpoint_id,
                               const DomainObservation& seen) {
  IMEX_TRY(std::optional<Endpoint> endpoint, t.find<Endpoint>(endpoint_id));
  if (!endpoint)
    return fail(Errc::kNotFound, fmt::format("endpoint {} is gone", endpoint_id.to_string()));
  IMEX_TRY(std::optional<Domain> known, t.find<Domain>(seen.domain));
  if (known && known->observed_at && *known->observed_at > seen.at) return {};
  Domain domain = known.value_or(Domain{});
  domain.id = seen.domain;
  domain.manager = seen.manager;
  domain.manager_version = seen.manager_version;
  domain.control_plane = seen.control_plane;
  domain.limits = seen.limits;
  domain.observed_at = seen.at;
  if (known) {
    IMEX_TRY([[maybe_unused]] const bool changed, t.update(domain));
  } else {
    domain.site = endpoint->site;
    IMEX_CHECK_OK(t.insert(domain));
  }
  IMEX_CHECK_OK(store_machines(t, domain.site, seen));
  IMEX_CHECK_OK(t.replace_observed_partitions(seen.domain, seen.partitions));
  return refresh_physical(t, seen);
}

// ---- Desired -----------------------------------------------------------------------------------

/// Fills in what an instance wants for the GPUs of its machine.
void add_wishes(DesiredMachine& machine, const Instance& instance,
                const std::vector<const NvlinkInterface*>& interfaces) {
  machine.instance = instance.id;
  machine.instance_version = instance.version;
  machine.instance_status = instance.status;
  machine.instance_provisioned = instance.provisioned;
  machine.config_changed = instance.config_changed;
  for (const NvlinkInterface* interface : interfaces) {
    const auto gpu = std::find_if(machine.gpus.begin(), machine.gpus.end(), [&](const auto& g) {
      return g.device_instance == interface->device_instance;
    });
    if (gpu == machine.gpus.end()) {
      // The tray has fewer GPUs now: the wish stays visible, it cannot be met.
      machine.gpus.push_back({.device_instance = interface->device_instance});
      add_wishes(machine, instance, {interface});
    } else if (interface->status == Status::kDeleting) {
      gpu->leaving.push_back(interface->id);
    } else {
      gpu->partition = interface->partition;
      gpu->interface = interface->id;
      gpu->interface_status = interface->status;
    }
  }
}

DesiredMachine without_wishes(const Machine& machine) {
  DesiredMachine out;
  out.id = machine.id;
  out.status = machine.status;
  out.chassis_serial = machine.chassis_serial;
  out.tray_index = machine.tray_index;
  out.slot_id = machine.slot_id;
  for (const Gpu& gpu : machine.gpus)
    out.gpus.push_back({.device_instance = gpu.device_instance, .uid = gpu.uid});
  return out;
}

Result<std::vector<NvlinkInterface>> read_machines(ReadTransaction& t, DesiredDomain& out) {
  ListQuery query;
  query.filters.push_back({Field::kDomain, {out.domain.id.to_string()}});
  query.order = Field::kId;
  IMEX_TRY(const std::vector<Machine> machines, t.list<Machine>(query));
  std::vector<std::string> names;
  for (const Machine& machine : machines) names.push_back(machine.id.text);
  IMEX_TRY(const auto instances, all_of<Instance>(t, Field::kMachine, std::move(names)));
  std::vector<std::string> ids;
  for (const Instance& instance : instances) ids.push_back(instance.id.to_string());
  IMEX_TRY(auto interfaces, all_of<NvlinkInterface>(t, Field::kInstance, std::move(ids)));

  std::map<InstanceId, std::vector<const NvlinkInterface*>> by_instance;
  for (const NvlinkInterface& interface : interfaces)
    by_instance[interface.instance].push_back(&interface);
  std::map<std::string, const Instance*> by_machine;
  for (const Instance& instance : instances) by_machine[instance.machine.text] = &instance;
  for (const Machine& machine : machines) {
    DesiredMachine& wanted = out.machines.emplace_back(without_wishes(machine));
    if (const auto found = by_machine.find(machine.id.text); found != by_machine.end())
      add_wishes(wanted, *found->second, by_instance[found->second->id]);
  }
  return interfaces;
}

// ---- Journal -----------------------------------------------------------------------------------

bool adds_members(OperationKind kind) {
  return kind == OperationKind::kCreatePartition || kind == OperationKind::kAddGpus;
}

Result<void> settle_physical(WriteTransaction& t, const OperationRecord& done) {
  IMEX_TRY(auto row, physical_of(t, done.domain, done.fabric_id));
  switch (done.kind) {
    case OperationKind::kCreatePartition: {
      if (!done.partition) return {};
      IMEX_TRY(const auto partition, t.find<LogicalPartition>(*done.partition));
      if (!partition) return {};  // gone meanwhile: the next pass finds it by its name
      return t.put_physical({.id = {},
                             .domain = done.domain,
                             .fabric_id = done.fabric_id,
                             .partition = partition->id,
                             .tenant = partition->tenant,
                             .name = partition->id.to_string(),
                             .gpu_uids = done.gpu_uids});
    }
    case OperationKind::kDeletePartition:
    case OperationKind::kDeleteDefaultPartition:
      if (row) IMEX_CHECK_OK(t.remove<PhysicalPartition>(row->id));
      return {};
    case OperationKind::kAddGpus:
    case OperationKind::kRemoveGpus:
      break;
  }
  if (!row) return {};
  for (const std::uint64_t uid : done.gpu_uids) std::erase(row->gpu_uids, uid);
  if (done.kind == OperationKind::kAddGpus)
    row->gpu_uids.insert(row->gpu_uids.end(), done.gpu_uids.begin(), done.gpu_uids.end());
  std::sort(row->gpu_uids.begin(), row->gpu_uids.end());
  IMEX_TRY([[maybe_unused]] const bool changed, t.update(*row));
  return {};
}

Result<void> note_failure(WriteTransaction& t, const OperationRecord& failed) {
  if (!failed.partition) return {};
  IMEX_TRY(auto partition, t.find<LogicalPartition>(*failed.partition));
  if (!partition) return {};
  const std::string message = fmt::format("{} in domain {}: {}", operation_kind_name(failed.kind),
                                          failed.domain.to_string(), failed.detail);
  const bool repeated =
      partition->last_error.has_value() && partition->last_error->message == message;
  add_error(partition->last_error, message, t.now());
  IMEX_TRY([[maybe_unused]] const bool changed, t.update(*partition));
  // The same failure again only counts: a history of a hundred equal lines hides the rest.
  if (repeated) return {};
  return t.note(Kind::kLogicalPartition, partition->id.to_string(), partition->status, message);
}

// ---- Write-back --------------------------------------------------------------------------------

Result<void> write_interface(WriteTransaction& t, const InterfaceStatus& status) {
  IMEX_TRY(auto interface, t.find<NvlinkInterface>(status.id));
  if (!interface) return {};
  if (status.gone) {
    // Only what is on its way out goes: a look at an older wish must not take a live row away.
    if (interface->status == Status::kDeleting) return t.remove<NvlinkInterface>(interface->id);
    return {};
  }
  if (interface->status != Status::kDeleting) interface->status = status.status;
  interface->domain = status.domain;
  interface->gpu_uid = status.gpu_uid;
  if (!status.error.empty())
    add_error(interface->last_error, status.error, t.now());
  else if (status.status == Status::kReady)
    interface->last_error.reset();
  IMEX_TRY([[maybe_unused]] const bool changed, t.update(*interface, status.error));
  return {};
}

Result<void> release_machine(WriteTransaction& t, const MachineId& id) {
  IMEX_TRY(auto machine, t.find<Machine>(id));
  if (!machine) return {};
  machine->instance.reset();
  machine->status = machine->maintenance_message.empty() ? Status::kReady : Status::kMaintenance;
  IMEX_TRY([[maybe_unused]] const bool changed,
           t.update(*machine, "seen outside all tenants' partitions"));
  return {};
}

Result<void> write_instance(WriteTransaction& t, const InstanceStatus& status) {
  IMEX_TRY(auto instance, t.find<Instance>(status.id));
  if (!instance || instance->version != status.version) return {};
  const bool terminating = instance->status == Status::kTerminating;
  if (status.gone) {
    if (!terminating) return {};
    IMEX_TRY(const auto interfaces,
             all_of<NvlinkInterface>(t, Field::kInstance, {instance->id.to_string()}));
    for (const NvlinkInterface& interface : interfaces)
      IMEX_CHECK_OK(t.remove<NvlinkInterface>(interface.id));
    IMEX_CHECK_OK(t.remove<Instance>(instance->id));
    return release_machine(t, instance->machine);
  }
  if (terminating) return {};
  instance->status = status.status;
  instance->provisioned |= status.status == Status::kReady;
  IMEX_TRY([[maybe_unused]] const bool changed, t.update(*instance, status.message));
  return {};
}

Result<void> write_partition(WriteTransaction& t, const PartitionStatus& status) {
  IMEX_TRY(auto partition, t.find<LogicalPartition>(status.id));
  if (!partition) return {};
  if (status.status && partition->status != Status::kDeleting) partition->status = *status.status;
  if (!status.error.empty())
    add_error(partition->last_error, status.error, t.now());
  else if (status.status == Status::kReady)
    partition->last_error.reset();
  IMEX_TRY([[maybe_unused]] const bool changed,
           t.update(*partition, status.error.empty() ? status.message : status.error));
  return {};
}

Result<void> write_machine(WriteTransaction& t, const MachineStatus& status) {
  IMEX_TRY(auto machine, t.find<Machine>(status.id));
  if (!machine || machine->instance || machine->status == Status::kMaintenance) return {};
  machine->status = status.status;
  IMEX_TRY([[maybe_unused]] const bool changed, t.update(*machine, status.message));
  return {};
}

Result<void> write_physical(WriteTransaction& t, const WriteBack& changes) {
  for (const std::uint32_t fabric_id : changes.lost) {
    IMEX_TRY(const auto row, physical_of(t, changes.domain, fabric_id));
    if (row) IMEX_CHECK_OK(t.remove<PhysicalPartition>(row->id));
  }
  for (const PhysicalPartition& adopted : changes.adopted) {
    IMEX_TRY(const auto partition, t.find<LogicalPartition>(adopted.partition));
    if (!partition) continue;  // went meanwhile: not ours any more
    PhysicalPartition row = adopted;
    row.domain = changes.domain;
    row.tenant = partition->tenant;
    IMEX_CHECK_OK(t.put_physical(std::move(row)));
  }
  return {};
}

Result<void> sweep_deleted_partitions(WriteTransaction& t) {
  IMEX_TRY(
      const auto leaving,
      all_of<LogicalPartition>(t, Field::kStatus, {std::string(status_name(Status::kDeleting))}));
  for (const LogicalPartition& partition : leaving) {
    IMEX_TRY([[maybe_unused]] const bool gone, t.remove_if_free(partition.id));
  }
  return {};
}

Result<void> apply(WriteTransaction& t, const WriteBack& changes) {
  IMEX_CHECK_OK(write_physical(t, changes));
  for (const InterfaceStatus& status : changes.interfaces)
    IMEX_CHECK_OK(write_interface(t, status));
  for (const InstanceStatus& status : changes.instances) IMEX_CHECK_OK(write_instance(t, status));
  for (const PartitionStatus& status : changes.partitions)
    IMEX_CHECK_OK(write_partition(t, status));
  for (const MachineStatus& status : changes.machines) IMEX_CHECK_OK(write_machine(t, status));
  return sweep_deleted_partitions(t);
}

}  // namespace

Result<DesiredDomain> read_desired(ReadTransaction& t, const DomainId& id) {
  DesiredDomain out;
  out.domain.id = id;
  IMEX_TRY(std::optional<Domain> domain, t.find<Domain>(id));
  if (domain) out.domain = *domain;
  IMEX_TRY(const std::vector<NvlinkInterface> interfaces, read_machines(t, out));

  ListQuery ours;
  ours.filters.push_back({Field::kDomain, {id.to_string()}});
  IMEX_TRY(out.physical, t.list<PhysicalPartition>(ours));
  std::sort(out.physical.begin(), out.physical.end(),
            [](const auto& a, const auto& b) { return a.fabric_id < b.fabric_id; });

  std::vector<LogicalPartitionId> wanted;
  for (const NvlinkInterface& interface : interfaces) wanted.push_back(interface.partition);
  for (const PhysicalPartition& row : out.physical) wanted.push_back(row.partition);
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<std::string> ids;
  for (const LogicalPartitionId& partition : wanted) ids.push_back(partition.to_string());
  IMEX_TRY(out.partitions, all_of<LogicalPartition>(t, Field::kId, std::move(ids)));

  ListQuery open = ours;
  open.filters.push_back(
      {Field::kState, {std::string(operation_state_name(OperationState::kBegun))}});
  IMEX_TRY(out.unfinished, t.list<OperationRecord>(open));
  return out;
}

// ---- The calls ---------------------------------------------------------------------------------

Result<void> StoreState::write_as_leader(
    Term term, const std::function<Result<void>(WriteTransaction&)>& work) {
  return write(kReconciler, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(const std::uint64_t now_leading, t.leader_term());
    if (now_leading != term.number)
      return fail(Errc::kStale, fmt::format("term {} of leadership is over, {} has begun",
                                            term.number, now_leading));
    return work(t);
  });
}

Result<std::vector<Endpoint>> StoreState::endpoints() {
  std::vector<Endpoint> out;
  IMEX_CHECK_OK(read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(out, t.list<Endpoint>({}));
    return {};
  }));
  return out;
}

Result<EndpointCredentials> StoreState::credentials(const EndpointId& endpoint) {
  std::string sealed;
  IMEX_CHECK_OK(read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(sealed, t.sealed_credentials(endpoint));
    return {};
  }));
  if (sealed.empty()) return EndpointCredentials{};
  return vault_.unseal(endpoint, sealed);
}

Result<std::vector<Domain>> StoreState::domains() {
  std::vector<Domain> out;
  IMEX_CHECK_OK(read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(out, t.list<Domain>({}));
    return {};
  }));
  return out;
}

Result<DesiredDomain> StoreState::desired(const DomainId& domain) {
  // Before the snapshot: a change that comes between is seen again, never missed.
  const std::uint64_t change = change_.value();
  DesiredDomain out;
  IMEX_CHECK_OK(read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(out, read_desired(t, domain));
    return {};
  }));
  out.change = change;
  return out;
}

Result<void> StoreState::write_observation(Term term, const EndpointId& endpoint,
                                           const DomainObservation& observation) {
  return write_as_leader(
      term, [&](WriteTransaction& t) { return store_observation(t, endpoint, observation); });
}

Result<void> StoreState::report_endpoint(Term term, const EndpointReport& report) {
  return write_as_leader(term, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(auto endpoint, t.find<Endpoint>(report.endpoint));
    if (!endpoint) return {};  // taken out meanwhile
    if (report.domain) endpoint->domain = report.domain;
    endpoint->state =
        report.message.empty() ? report.state : fmt::format("{}: {}", report.state, report.message);
    if (report.message.empty()) endpoint->last_contact = report.at;
    IMEX_TRY([[maybe_unused]] const bool changed, t.update(*endpoint));
    return {};
  });
}

Result<BegunOperation> StoreState::begin_operation(Term term, const OperationRecord& record) {
  BegunOperation out;
  IMEX_CHECK_OK(write_as_leader(term, [&](WriteTransaction& t) -> Result<void> {
    out = {};
    IMEX_TRY(auto known, t.operation_by_key(record.idempotency_key));
    if (known) {
      out.record = std::move(*known);
      return {};
    }
    out.fresh = true;
    out.record = record;
    if (out.record.id.is_nil()) out.record.id = {os::random_uuid()};
    out.record.state = OperationState::kBegun;
    out.record.begun = t.now();
    out.record.finished.reset();
    if (record.partition) {
      IMEX_TRY(const auto partition, t.find<LogicalPartition>(*record.partition));
      if (adds_members(record.kind) && (!partition || partition->status == Status::kDeleting))
        return fail(Errc::kFailedPrecondition,
                    fmt::format("logical partition {} is deleted: it takes no members",
                                record.partition->to_string()));
      if (partition) out.record.tenant = partition->tenant;
    }
    return t.insert(out.record);
  }));
  return out;
}

Result<void> StoreState::finish_operation(Term term, const std::string& key, OperationState state,
                                          std::uint32_t fabric_id, const std::string& detail) {
  return write_as_leader(term, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(auto record, t.operation_by_key(key));
    if (!record)
      return fail(Errc::kNotFound, fmt::format("no operation with key {} was begun", key));
    if (record->state == state) return {};
    if (record->state != OperationState::kBegun && record->state != OperationState::kTimedOut &&
        state != OperationState::kRolledBack)
      return fail(Errc::kFailedPrecondition, fmt::format("operation {} is {} already", key,
                                                         operation_state_name(record->state)));
    record->state = state;
    record->detail = detail;
    record->finished = t.now();
    if (fabric_id != 0) record->fabric_id = fabric_id;
    IMEX_TRY([[maybe_unused]] const bool changed, t.update(*record));
    if (state == OperationState::kCompleted) return settle_physical(t, *record);
    if (state == OperationState::kFailed || state == OperationState::kTimedOut)
      return note_failure(t, *record);
    return {};
  });
}

Result<void> StoreState::write_back(Term term, const WriteBack& changes) {
  return write_as_leader(term, [&](WriteTransaction& t) { return apply(t, changes); });
}

}  // namespace imex::partition
