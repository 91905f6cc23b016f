// imex instance: the tenant's machines and what their GPUs share memory with.

#include <algorithm>

#include <fmt/format.h>

#include "os/random.hpp"
#include "partition/client/resolve.hpp"
#include "tenant_support.hpp"

namespace imex::cli {
namespace {

using partition::client::Client;
using partition::client::GpuBinding;
using partition::client::InstanceView;
using partition::client::InterfaceView;

Result<PartitionNames> partition_names(Client& client) {
  IMEX_TRY(const auto all, client.partitions());
  return names_of(all);
}

std::string instance_text(const InstanceView& view, const PartitionNames& names) {
  Fields fields;
  fields.add("instance", view.name);
  fields.add("id", view.id.to_string());
  if (!view.description.empty()) fields.add("description", view.description);
  fields.add("status", std::string(partition::status_name(view.status)));
  if (!view.history.empty() && !view.history.front().message.empty())
    fields.add("because", view.history.front().message);
  fields.add("machine", view.machine.empty() ? "(not placed yet)" : view.machine);
  fields.add("VPC", view.vpc.to_string());
  for (const auto& [key, value] : view.labels) fields.add("label", key + "=" + value);
  std::string text = fields.render();
  if (view.interfaces.empty()) return text + "\nno GPU is in a partition\n";
  Table table({"GPU", "PARTITION", "STATUS", "DOMAIN", "GPU UID"});
  for (const InterfaceView& each : view.interfaces) {
    table.add({fmt::format("{}", each.device_instance), name_of(names, each.partition),
               std::string(partition::status_name(each.status)),
               each.domain ? each.domain->to_string() : "",
               each.gpu_uid ? fmt::format("{}", *each.gpu_uid) : ""});
  }
  return text + "\n" + table.render();
}

Result<void> print_instances(const Global& global, Client& client,
                             const std::vector<InstanceView>& all) {
  PartitionNames names;
  if (global.format == Format::kTable) {
    IMEX_TRY(names, partition_names(client));
  }
  Table table({"NAME", "STATUS", "MACHINE", "GPUS", "DOMAIN", "ID"});
  std::vector<Json> rows;
  for (const InstanceView& view : all) {
    table.add({view.name, std::string(partition::status_name(view.status)), view.machine,
               gpus_text(view.interfaces, names), domain_text(view.interfaces),
               view.id.to_string()});
    rows.push_back(to_json(view));
  }
  return print(render_list(global.format, "instances", rows, table));
}

Result<void> print_instance(const Global& global, Client& client, const InstanceView& view) {
  PartitionNames names;
  if (global.format == Format::kTable) {
    IMEX_TRY(names, partition_names(client));
  }
  Json json = to_json(view);
  json["status_history"] = to_json(view.history);
  return print_object(global.format, json, instance_text(view, names));
}

/// The VPC meant; a tenant without any gets one, since an instance cannot be without.
Result<partition::VpcId> vpc_for(const Global& global, Client& client,
                                 const InstanceOptions& options, const partition::SiteId& site) {
  if (!options.vpc.empty()) return partition::client::find_vpc(client, options.vpc);
  IMEX_TRY(auto all, client.vpcs());
  std::erase_if(all, [&](const auto& vpc) { return vpc.site && *vpc.site != site; });
  if (!all.empty()) {
    if (all.size() == 1) return all.front().id;
    std::string names;
    for (const auto& vpc : all) names += (names.empty() ? "" : ", ") + vpc.name;
    return fail(Errc::kInvalidArgument, fmt::format("in which VPC? There are {}", names),
                "choose one with --vpc");
  }
  if (options.dry_run) {
    return fail(Errc::kFailedPrecondition, "there is no VPC yet, and a dry run makes none",
                "imex vpc create default");
  }
  IMEX_TRY(const auto made, client.create_vpc({.name = "default", .site = site}));
  if (!global.quiet) fmt::print(stderr, "made VPC 'default': there was none\n");
  return made.id;
}

/// Partitions by the names that wishes give, each looked up once.
Result<std::map<std::string, partition::LogicalPartitionId>> partitions_of(
    Client& client, const std::vector<GpuWish>& wishes) {
  std::map<std::string, partition::LogicalPartitionId> found;
  for (const GpuWish& wish : wishes) {
    if (!wish.partition || found.contains(*wish.partition)) continue;
    IMEX_TRY(const auto id, partition::client::find_partition(client, *wish.partition));
    found.emplace(*wish.partition, id);
  }
  return found;
}

/// What the GPUs of an instance are bound to once the wishes are granted; `before` is kept where no
/// wish says otherwise.
Result<std::vector<GpuBinding>> bindings_of(Client& client, const std::vector<GpuWish>& wishes,
                                            std::map<std::uint32_t, GpuBinding> before) {
  IMEX_TRY(const auto partitions, partitions_of(client, wishes));
  for (const GpuWish& wish : wishes) {
    if (wish.partition)
      before[wish.device_instance] = {wish.device_instance, partitions.at(*wish.partition)};
    else
      before.erase(wish.device_instance);
  }
  std::vector<GpuBinding> bindings;
  for (const auto& [index, binding] : before) bindings.push_back(binding);
  return bindings;
}

Result<partition::client::NewInstance> wanted_instance(const Global& global, Client& client,
                                                       const Controller& controller,
                                                       const InstanceOptions& options) {
  partition::client::NewInstance wanted;
  IMEX_TRY(wanted.labels, parse_labels(options.labels));
  wanted.name =
      options.name.value_or(fmt::format("instance-{:06x}", os::SystemRandom().below(1U << 24U)));
  wanted.description = options.description;
  wanted.operating_system = options.operating_system;
  wanted.subnet = options.subnet;
  using partition::client::OneDomain;
  wanted.domain = options.domain == "require"  ? OneDomain::kRequire
                  : options.domain == "prefer" ? OneDomain::kPrefer
                  : options.domain == "ignore" ? OneDomain::kIgnore
                                               : OneDomain::kDefault;
  IMEX_TRY(wanted.tenant, client.tenant());
  IMEX_TRY(const auto site, partition::client::find_site(client, controller.site));
  std::optional<std::uint32_t> gpus_of_type;
  if (options.machine) {
    wanted.machine = options.machine;
  } else {
    IMEX_TRY(wanted.instance_type,
             partition::client::find_instance_type(client, site, options.type));
    IMEX_TRY(const auto types, client.instance_types(site));
    const auto type =
        std::ranges::find(types, *wanted.instance_type, &partition::client::InstanceTypeView::id);
    if (type != types.end()) gpus_of_type = type->nvlink_gpus;
  }
  IMEX_TRY(const auto wishes, gpu_wishes(options, gpus_of_type));
  if (wishes) {
    IMEX_TRY(wanted.gpus, bindings_of(client, *wishes, {}));
  }
  IMEX_TRY(wanted.vpc, vpc_for(global, client, options, site));
  return wanted;
}

Result<std::vector<InstanceView>> wait_for_all(const Global& global, Client& client,
                                               const InstanceOptions& options,
                                               std::vector<InstanceView> made) {
  for (InstanceView& each : made) {
    IMEX_TRY(each, wait_with_progress(global, options, each.name, [&](const auto& waiting) {
               return partition::client::wait_ready(client, each.id, waiting);
             }));
  }
  return made;
}

}  // namespace

Result<void> instance_list(const Global& global, const InstanceOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  IMEX_TRY(const auto all, controller.client->instances());
  return print_instances(global, *controller.client, all);
}

Result<void> instance_show(const Global& global, const InstanceOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_instance(client, options.target));
  IMEX_TRY(const InstanceView view, client.instance(id));
  return print_instance(global, client, view);
}

Result<void> instance_create(const Global& global, const InstanceOptions& options) {
  if (options.machine && options.count > 1) {
    return fail(Errc::kInvalidArgument, "--machine names one machine, --count asks for several");
  }
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto wanted, wanted_instance(global, client, controller, options));
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_create(wanted, options.count));
    IMEX_TRY(const PartitionNames names, partition_names(client));
    return print_plan(global.format, plan, names);
  }
  std::vector<InstanceView> made;
  if (options.count == 1) {
    IMEX_TRY(InstanceView one, client.create_instance(wanted));
    made.push_back(std::move(one));
  } else {
    IMEX_TRY(made, client.create_instances(wanted, options.count));
  }
  if (options.wait) {
    IMEX_TRY(made, wait_for_all(global, client, options, std::move(made)));
  }
  return options.count == 1 ? print_instance(global, client, made.front())
                            : print_instances(global, client, made);
}

Result<void> instance_update(const Global& global, const InstanceOptions& options) {
  IMEX_TRY(const auto wishes, gpu_wishes(options, std::nullopt));
  partition::client::InstanceChange change;
  change.name = options.name;
  change.description = options.description;
  if (!options.labels.empty()) {
    IMEX_TRY(change.labels, parse_labels(options.labels));
  }
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_instance(client, options.target));
  if (wishes) {
    // The API only knows complete sets. --gpus is one; --gpu changes the one that is there.
    std::map<std::uint32_t, GpuBinding> before;
    if (!options.gpus) {
      IMEX_TRY(const InstanceView view, client.instance(id));
      for (const InterfaceView& each : view.interfaces) {
        if (each.status != partition::Status::kDeleting)
          before[each.device_instance] = {each.device_instance, each.partition};
      }
    }
    IMEX_TRY(change.gpus, bindings_of(client, *wishes, std::move(before)));
  }
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_update(id, change));
    IMEX_TRY(const PartitionNames names, partition_names(client));
    return print_plan(global.format, plan, names);
  }
  IMEX_TRY(InstanceView now, client.update_instance(id, change));
  if (options.wait) {
    IMEX_TRY(now, wait_with_progress(global, options, now.name, [&](const auto& waiting) {
               return partition::client::wait_ready(client, id, waiting);
             }));
  }
  return print_instance(global, client, now);
}

Result<void> instance_delete(const Global& global, const InstanceOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_instance(client, options.target));
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_delete(id));
    IMEX_TRY(const PartitionNames names, partition_names(client));
    return print_plan(global.format, plan, names);
  }
  IMEX_CHECK_OK(client.delete_instance(id));
  return finish_delete(global, options, client, id, "instance");
}

}  // namespace imex::cli
