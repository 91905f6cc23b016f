#include <algorithm>
#include <map>
#include <set>

#include "checks.hpp"
#include "os/random.hpp"
#include "views.hpp"

namespace imex::partition::forge {
namespace {

Result<std::vector<NvlinkInterface>> interfaces_of(ReadTransaction& t, const InstanceId& id) {
  return rows_with<NvlinkInterface>(t, Field::kInstance, {id.to_string()}, Field::kDevice);
}

Result<InstanceView> instance_view(ReadTransaction& t, Instance record) {
  InstanceView view;
  IMEX_TRY(auto orgs, orgs_of(t, {record.tenant}));
  view.org = orgs[record.tenant];
  IMEX_TRY(view.interfaces, interfaces_of(t, record.id));
  view.record = std::move(record);
  return view;
}

/// Whether its configuration can change now.
Result<void> check_changeable(const Instance& instance) {
  switch (instance.status) {
    case Status::kReady:
    case Status::kConfiguring:
    case Status::kError:
    case Status::kUpdating:
    case Status::kRepairing:
    case Status::kRebooting:
      return {};
    case Status::kTerminating:
    case Status::kTerminated:
      return fail(Errc::kInvalidArgument,
                  fmt::format("deletion of instance {} was requested", instance.id.to_string()));
    default:
      return fail(Errc::kInvalidArgument,
                  fmt::format("instance {} is {}: its host is not assigned and ready yet",
                              instance.id.to_string(), status_name(instance.status)),
                  "try again once it is Ready");
  }
}

/// The wished partition of each GPU that is to have one.
using Wishes = std::map<std::uint32_t, LogicalPartitionId>;

Result<Wishes> check_wishes(ReadTransaction& t, const Instance& instance,
                            const std::vector<GpuWish>& given) {
  IMEX_TRY(const auto machine, t.find<Machine>(instance.machine));
  const std::size_t gpus = machine ? machine->gpus.size() : 0;
  std::set<std::uint32_t> seen;
  Wishes wishes;
  for (const GpuWish& wish : given) {
    if (wish.device_instance >= gpus) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("device_instance {} is given, machine {} has {} GPUs, counted from 0",
                              wish.device_instance, printable(instance.machine.text), gpus));
    }
    if (!seen.insert(wish.device_instance).second) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("device_instance {} is given twice", wish.device_instance));
    }
    if (wish.partition) wishes.emplace(wish.device_instance, *wish.partition);
  }
  std::set<LogicalPartitionId> partitions;
  for (const auto& [device, partition] : wishes) partitions.insert(partition);
  for (const LogicalPartitionId& id : partitions) {
    IMEX_TRY(const auto row, t.find<LogicalPartition>(id));
    const bool fits = row && row->tenant == instance.tenant && row->site == instance.site;
    if (!fits || row->status != Status::kReady) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("logical partition {} {}", id.to_string(),
                              !row    ? "does not exist"
                              : !fits ? "is of another tenant or site than the instance"
                                      : fmt::format("is {}, not Ready", status_name(row->status))));
    }
  }
  return wishes;
}

/// Makes the live interfaces those wished: what is unchanged stays untouched. Whether anything
/// changed.
Result<bool> replace_interfaces(WriteTransaction& t, const Instance& instance, Wishes wishes) {
  IMEX_TRY(auto interfaces, interfaces_of(t, instance.id));
  bool changed = false;
  for (NvlinkInterface& interface : interfaces) {
    if (interface.status == Status::kDeleting) continue;
    const auto wish = wishes.find(interface.device_instance);
    if (wish != wishes.end() && wish->second == interface.partition) {
      wishes.erase(wish);
      continue;
    }
    interface.status = Status::kDeleting;
    IMEX_CHECK_OK(t.update(interface, "replaced by an administrator"));
    changed = true;
  }
  for (const auto& [device, partition] : wishes) {
    NvlinkInterface interface;
    interface.id = InterfaceId{os::random_uuid()};
    interface.instance = instance.id;
    interface.tenant = instance.tenant;
    interface.site = instance.site;
    interface.partition = partition;
    interface.device_instance = device;
    IMEX_CHECK_OK(t.insert(interface));
    changed = true;
  }
  return changed;
}

void mark_configuring(WriteTransaction& t, Instance& instance) {
  ++instance.version;
  instance.config_changed = t.now();
  if (instance.status == Status::kReady) instance.status = Status::kConfiguring;
  t.wake_reconciler();
}

}  // namespace

bool InstanceView::configs_synced() const noexcept {
  return std::ranges::all_of(interfaces, [](const NvlinkInterface& interface) {
    return interface.status == Status::kReady;
  });
}

Result<std::vector<InstanceView>> Administration::instances(const std::vector<InstanceId>& ids) {
  IMEX_CHECK_OK(check_count(ids));
  std::vector<InstanceView> views;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    views.clear();
    IMEX_TRY(auto rows, rows_with<Instance>(t, Field::kId, texts_of(ids)));
    for (Instance& row : rows) {
      IMEX_TRY(InstanceView view, instance_view(t, std::move(row)));
      views.push_back(std::move(view));
    }
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return views;
}

Result<InstanceView> Administration::update_instance(const Actor& actor,
                                                     const InstanceUpdate& update) {
  if (update.name) IMEX_CHECK_OK(check_text("the name", *update.name, kNameBytesMax));
  if (update.description) IMEX_CHECK_OK(check_description(*update.description));
  std::optional<std::uint64_t> wanted;
  if (update.if_version) {
    IMEX_TRY(wanted, parse_version(*update.if_version));
  }
  InstanceView view;
  auto done = store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(Instance record, existing<Instance>(t, update.id, "instance", update.id.to_string()));
    IMEX_CHECK_OK(check_changeable(record));
    if (wanted && *wanted != record.version) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("instance {} has version {}, not {}", update.id.to_string(),
                              record.version, *wanted),
                  "somebody else changed it: read it again");
    }
    if (update.gpus) {
      IMEX_TRY(Wishes wishes, check_wishes(t, record, *update.gpus));
      IMEX_TRY(const bool changed, replace_interfaces(t, record, std::move(wishes)));
      if (changed) mark_configuring(t, record);
    }
    if (update.name) record.name = *update.name;
    if (update.description) {
      record.description =
          update.description->empty() ? std::nullopt : std::optional(*update.description);
    }
    IMEX_CHECK_OK(t.update(record, "changed by an administrator"));
    IMEX_TRY(view, instance_view(t, std::move(record)));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return view;
}

Result<void> Administration::release_instance(const Actor& actor, const InstanceId& id,
                                              const std::string& issue) {
  return store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(Instance record, existing<Instance>(t, id, "instance", id.to_string()));
    if (record.status == Status::kTerminating) return {};
    IMEX_CHECK_OK(replace_interfaces(t, record, {}));
    ++record.version;
    record.config_changed = t.now();
    record.status = Status::kTerminating;
    IMEX_CHECK_OK(t.update(record, issue.empty() ? "release requested by an administrator"
                                                 : "release requested: " + issue));
    t.wake_reconciler();
    return {};
  });
}

}  // namespace imex::partition::forge
