// imex vpc: networks of the tenant, as far as they decide about NVLink.

#include <fmt/format.h>

#include "partition/client/resolve.hpp"
#include "tenant_support.hpp"

namespace imex::cli {
namespace {

using partition::client::VpcView;

Result<PartitionNames> known_partitions(partition::client::Client& client) {
  IMEX_TRY(const auto all, client.partitions());
  return names_of(all);
}

std::string default_of(const VpcView& view, const PartitionNames& names) {
  return view.default_partition ? name_of(names, *view.default_partition) : "";
}

Result<void> print_vpc(const Global& global, partition::client::Client& client,
                       const VpcView& view) {
  PartitionNames names;
  if (global.format == Format::kTable && view.default_partition) {
    IMEX_TRY(names, known_partitions(client));
  }
  Fields fields;
  fields.add("VPC", view.name);
  fields.add("id", view.id.to_string());
  if (!view.description.empty()) fields.add("description", view.description);
  fields.add("status", std::string(partition::status_name(view.status)));
  if (view.site) fields.add("site", view.site->to_string());
  fields.add("default partition", view.default_partition ? default_of(view, names) : "(none)");
  for (const auto& [key, value] : view.labels) fields.add("label", key + "=" + value);
  Json json = to_json(view);
  json["status_history"] = to_json(view.history);
  return print_object(global.format, json, fields.render());
}

}  // namespace

Result<void> vpc_list(const Global& global, const VpcOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  IMEX_TRY(const auto all, controller.client->vpcs());
  IMEX_TRY(const PartitionNames names, known_partitions(*controller.client));
  Table table({"NAME", "STATUS", "DEFAULT PARTITION", "ID"});
  std::vector<Json> rows;
  for (const VpcView& view : all) {
    table.add({view.name, std::string(partition::status_name(view.status)), default_of(view, names),
               view.id.to_string()});
    rows.push_back(to_json(view));
  }
  return print(render_list(global.format, "vpcs", rows, table));
}

Result<void> vpc_show(const Global& global, const VpcOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_vpc(client, options.target));
  IMEX_TRY(const VpcView view, client.vpc(id));
  return print_vpc(global, client, view);
}

Result<void> vpc_create(const Global& global, const VpcOptions& options) {
  IMEX_TRY(const auto labels, parse_labels(options.labels));
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  partition::client::NewVpc wanted;
  wanted.name = options.name.value_or("");
  wanted.description = options.description;
  wanted.labels = labels;
  IMEX_TRY(wanted.site, partition::client::find_site(client, controller.site));
  if (options.default_partition) {
    IMEX_TRY(wanted.default_partition,
             partition::client::find_partition(client, *options.default_partition));
  }
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_create(wanted));
    return print_plan(global.format, plan, {});
  }
  IMEX_TRY(VpcView made, client.create_vpc(wanted));
  if (options.wait) {
    IMEX_TRY(made, wait_with_progress(global, options, made.name, [&](const auto& waiting) {
               return partition::client::wait_ready(client, made.id, waiting);
             }));
  }
  return print_vpc(global, client, made);
}

Result<void> vpc_update(const Global& global, const VpcOptions& options) {
  partition::client::VpcChange change;
  change.name = options.name;
  change.description = options.description;
  change.clear_default_partition = options.no_default_partition;
  if (!options.labels.empty()) {
    IMEX_TRY(change.labels, parse_labels(options.labels));
  }
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_vpc(client, options.target));
  if (options.default_partition) {
    IMEX_TRY(change.default_partition,
             partition::client::find_partition(client, *options.default_partition));
  }
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_update(id, change));
    return print_plan(global.format, plan, {});
  }
  IMEX_TRY(VpcView now, client.update_vpc(id, change));
  if (options.wait) {
    IMEX_TRY(now, wait_with_progress(global, options, now.name, [&](const auto& waiting) {
               return partition::client::wait_ready(client, id, waiting);
             }));
  }
  return print_vpc(global, client, now);
}

Result<void> vpc_delete(const Global& global, const VpcOptions& options) {
  IMEX_TRY(const Controller controller, connect_controller(global, options.controller));
  auto& client = *controller.client;
  IMEX_TRY(const auto id, partition::client::find_vpc(client, options.target));
  if (options.dry_run) {
    IMEX_TRY(const auto plan, client.plan_delete(id));
    return print_plan(global.format, plan, {});
  }
  IMEX_CHECK_OK(client.delete_vpc(id));
  return finish_delete(global, options, client, id, "VPC");
}

}  // namespace imex::cli
