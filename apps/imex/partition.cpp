// imex partition: logical partitions of the tenant.

#include <fmt/format.h>

#include "partition/client/resolve.hpp"
#include "tenant_support.hpp"

namespace imex::cli {
namespace {

using partition::client::InterfaceView;
using partition::client::PartitionView;

Fields partition_fields(const PartitionView& view) {
  Fields fields;
  fields.add("partition", view.name);
  fields.add("id", view.id.to_string());
  if (!view.description.empty()) fields.add("description", view.description);
  fields.add("status", std::string(partition::status_name(view.status)));
  if (!view.history.empty() && !view.history.front().message.empty())
    fields.add("because", view.history.front().message);
  fields.add("site", view.site.to_string());
  if (view.failure) {
    fields.add("last error", fmt::format("{} ({} times, last at {})", view.failure->message,
                                         view.failure->count, view.failure->at));
  }
  fields.add("GPUs", fmt::format("{} of {} instances", view.gpus, view.instances));
  for (const auto& vpc : view.default_of) fields.add("default of VPC", vpc.name);
  return fields;
}

partition::client::FabricWishes fabric_wishes(const PartitionOptions& options) {
  return {.multicast_groups = options.multicast_groups,
          .resiliency = partition::parse_resiliency_mode(options.resiliency)};
}

Result<void> print_partition(const Global& global, const PartitionView& view) {
  return print_object(global.format, to_json(view), partition_fields(view).render());
}

/// The GPUs of a partition as a table, those that share memory under one number.
std::string gpus_table(const std::vector<InterfaceView>& interfaces,
                       const std::vector<partition::client::SharingGroup>& groups,
                       const std::map<partition::InstanceId, std::string>& instances) {
  std::map<partition::InterfaceId, std::size_t> group_of;
  for (std::size_t i = 0; i != groups.size(); ++i) {
    for (const InterfaceView& each : groups[i].interfaces) group_of[each.id] = i + 1;
  }
  Table table({"GROUP", "INSTANCE", "GPU", "STATUS", "DOMAIN", "GPU UID"});
  const auto add = [&](const InterfaceView& each, std::size_t group) {
    const auto named = instances.find(each.instance);
    table.add({group == 0 ? "-" : fmt::format("{}", group),
               named == instances.end() ? each.instance.to_string() : named->second,
               fmt::format("{}", each.device_instance),
               std::string(partition::status_name(each.status)),
               each.domain ? each.domain->to_string() : "",
               each.gpu_uid ? fmt::format("{}", *each.gpu_uid) : ""});
  };
  for (std::size_t i = 0; i != groups.size(); ++i) {
    for (const InterfaceView& each : groups[i].interfaces) add(each, i + 1);
  }
  for (const InterfaceView& each : interfaces) {
    if (!group_of.contains(each.id)) add(each, 0);
  }
  return table.render();
}

}  // namespace

Result<void> partition_list(const Global& global, const PartitionOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  IMEX_TRY(const auto all, controller.client->partitions());
  Table table({"NAME", "STATUS", "GPUS", "INSTANCES", "DEFAULT OF", "ID"});
  std::vector<Json> rows;
  for (const PartitionView& view : all) {
    std::string vpcs;
    for (const auto& vpc : view.default_of) vpcs += (vpcs.empty() ? "" : ", ") + vpc.name;
    table.add({view.name, std::string(partition::status_name(view.status)),
               fmt::format("{}", view.gpus), fmt::format("{}", view.instances), vpcs,
               view.id.to_string()});
    rows.push_back(to_json(view));
  }
  return print(render_list(global.format, "partitions", rows, table));
}

Result<void> partition_show(const Global& global, const PartitionOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_partition(client, options.target));
  IMEX_TRY(const PartitionView view, client.partition(id));
  IMEX_TRY(const auto interfaces, client.interfaces(id));
  const auto groups = partition::client::sharing_groups(interfaces);
  if (global.format != Format::kTable) {
    Json json = to_json(view);
    json["sharing_groups"] = Json::array();
    for (const auto& group : groups) json["sharing_groups"].push_back(to_json(group));
    json["interfaces"] = Json::array();
    for (const auto& each : interfaces) json["interfaces"].push_back(to_json(each));
    json["status_history"] = to_json(view.history);
    return print_object(global.format, json, {});
  }
  std::map<partition::InstanceId, std::string> instances;
  if (!interfaces.empty()) {
    IMEX_TRY(const auto all, client.instances());
    for (const auto& each : all) instances.emplace(each.id, each.name);
  }
  Fields fields = partition_fields(view);
  fields.add("sharing groups",
             fmt::format("{}{}", groups.size(),
                         groups.size() > 1 ? ": GPUs of different groups share no memory" : ""));
  std::string text = fields.render();
  if (!interfaces.empty()) text += "\n" + gpus_table(interfaces, groups, instances);
  return print(text);
}

Result<void> partition_create(const Global& global, const PartitionOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  partition::client::NewPartition wanted;
  wanted.name = options.name.value_or("");
  wanted.description = options.description;
  wanted.fabric = fabric_wishes(options);
  IMEX_TRY(wanted.site, partition::client::find_site(client, controller.site));
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_create(wanted));
    return print_plan(global.format, plan, {});
  }
  IMEX_TRY(PartitionView made, client.create_partition(wanted));
  if (options.wait) {
    IMEX_TRY(made, wait_with_progress(global, options, made.name, [&](const auto& waiting) {
               return partition::client::wait_ready(client, made.id, waiting);
             }));
  }
  return print_partition(global, made);
}

Result<void> partition_update(const Global& global, const PartitionOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_partition(client, options.target));
  const partition::client::PartitionChange change{
      .name = options.name, .description = options.description, .fabric = fabric_wishes(options)};
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_update(id, change));
    return print_plan(global.format, plan, {});
  }
  IMEX_TRY(PartitionView now, client.update_partition(id, change));
  if (options.wait) {
    IMEX_TRY(now, wait_with_progress(global, options, now.name, [&](const auto& waiting) {
               return partition::client::wait_ready(client, id, waiting);
             }));
  }
  return print_partition(global, now);
}

Result<void> partition_delete(const Global& global, const PartitionOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_partition(client, options.target));
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_delete(id));
    return print_plan(global.format, plan, {{id, options.target}});
  }
  IMEX_CHECK_OK(client.delete_partition(id));
  return finish_delete(global, options, client, id, "partition");
}

}  // namespace imex::cli
