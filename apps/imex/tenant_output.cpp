#include "tenant_output.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace imex::cli {
namespace {

using partition::client::InterfaceView;
using partition::client::PlannedOperation;

/// "0-3", "0,2-3": numbers in ascending order, each once.
std::string ranges_text(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t begin = 0; begin != numbers.size();) {
    std::size_t end = begin + 1;
    while (end != numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - begin == 1 ? fmt::format("{}", numbers[begin])
                             : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
    begin = end;
  }
  return text;
}

template <class IdOf>
Json id_or_null(const std::optional<IdOf>& id) {
  return id ? Json(id->to_string()) : Json(nullptr);
}

template <class View>
Json list_json(const std::vector<View>& all) {
  Json list = Json::array();
  for (const View& each : all) list.push_back(to_json(each));
  return list;
}

}  // namespace

PartitionNames names_of(const std::vector<partition::client::PartitionView>& partitions) {
  PartitionNames names;
  for (const auto& each : partitions) names.emplace(each.id, each.name);
  return names;
}

std::string name_of(const PartitionNames& names, const partition::LogicalPartitionId& id) {
  const auto at = names.find(id);
  return at == names.end() ? id.to_string() : at->second;
}

Json to_json(const std::vector<partition::client::StatusNote>& history) {
  Json list = Json::array();
  for (const auto& note : history) {
    list.push_back({{"status", partition::status_name(note.status)},
                    {"message", note.message},
                    {"updated", note.updated}});
  }
  return list;
}

Json to_json(const std::optional<partition::client::FailureNote>& failure) {
  if (!failure) return nullptr;
  return {{"message", failure->message}, {"at", failure->at}, {"count", failure->count}};
}

Json to_json(const InterfaceView& view) {
  // The uid as text: programs that read numbers as doubles would round it.
  return {{"id", view.id.to_string()},
          {"instance_id", view.instance.to_string()},
          {"partition_id", view.partition.to_string()},
          {"device_instance", view.device_instance},
          {"status", partition::status_name(view.status)},
          {"domain_uuid", id_or_null(view.domain)},
          {"gpu_uid", view.gpu_uid ? Json(std::to_string(*view.gpu_uid)) : Json(nullptr)},
          {"last_error", to_json(view.failure)}};
}

Json to_json(const partition::client::PartitionView& view) {
  Json vpcs = Json::array();
  for (const auto& vpc : view.default_of)
    vpcs.push_back({{"id", vpc.id.to_string()}, {"name", vpc.name}});
  return {
      {"id", view.id.to_string()},
      {"name", view.name},
      {"description", view.description},
      {"status", partition::status_name(view.status)},
      {"site_id", view.site.to_string()},
      {"gpus", view.gpus},
      {"instances", view.instances},
      {"default_of_vpcs", std::move(vpcs)},
      {"multicast_groups", view.multicast_groups ? Json(*view.multicast_groups) : Json(nullptr)},
      {"resiliency_mode", partition::resiliency_mode_name(view.resiliency)},
      {"last_error", to_json(view.failure)},
      {"created", view.created},
      {"updated", view.updated}};
}

Json to_json(const partition::client::VpcView& view) {
  return {{"id", view.id.to_string()},
          {"name", view.name},
          {"description", view.description},
          {"status", partition::status_name(view.status)},
          {"site_id", id_or_null(view.site)},
          {"default_partition_id", id_or_null(view.default_partition)},
          {"labels", Json(view.labels)},
          {"created", view.created},
          {"updated", view.updated}};
}

Json to_json(const partition::client::InstanceView& view) {
  return {{"id", view.id.to_string()},
          {"name", view.name},
          {"description", view.description},
          {"status", partition::status_name(view.status)},
          {"site_id", view.site.to_string()},
          {"vpc_id", view.vpc.to_string()},
          {"instance_type_id", id_or_null(view.instance_type)},
          {"machine_id", view.machine},
          {"labels", Json(view.labels)},
          {"interfaces", list_json(view.interfaces)},
          {"created", view.created},
          {"updated", view.updated}};
}

Json to_json(const partition::client::SharingGroup& group) {
  std::set<std::string> instances;
  for (const InterfaceView& each : group.interfaces) instances.insert(each.instance.to_string());
  return {{"domain_uuid", group.domain.to_string()},
          {"instances", instances},
          {"interfaces", list_json(group.interfaces)}};
}

Json to_json(const PlannedOperation& operation) {
  Json uids = Json::array();
  for (const std::uint64_t uid : operation.gpu_uids) uids.push_back(std::to_string(uid));
  return {
      {"kind", operation.kind},
      {"domain_uuid", id_or_null(operation.domain)},
      {"partition_id", id_or_null(operation.partition)},
      {"fabric_partition_id", operation.fabric_id},
      {"gpu_uids", std::move(uids)},
  };
}

std::string gpus_text(const std::vector<InterfaceView>& interfaces, const PartitionNames& names) {
  std::map<std::pair<std::string, partition::Status>, std::set<std::uint32_t>> groups;
  for (const InterfaceView& each : interfaces)
    groups[{name_of(names, each.partition), each.status}].insert(each.device_instance);
  std::vector<std::pair<std::vector<std::uint32_t>, std::string>> parts;
  for (const auto& [group, indexes] : groups) {
    std::string where = group.first;
    if (group.second != partition::Status::kReady)
      where += fmt::format(" {}", partition::status_name(group.second));
    parts.emplace_back(std::vector(indexes.begin(), indexes.end()), std::move(where));
  }
  std::ranges::stable_sort(parts, {}, [](const auto& part) { return part.first; });
  std::vector<std::string> words;
  for (const auto& [indexes, where] : parts)
    words.push_back(fmt::format("{} {}", ranges_text(indexes), where));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string domain_text(const std::vector<InterfaceView>& interfaces) {
  std::set<partition::DomainId> domains;
  for (const InterfaceView& each : interfaces) {
    if (each.domain) domains.insert(*each.domain);
  }
  if (domains.empty()) return {};
  if (domains.size() == 1) return domains.begin()->to_string();
  return fmt::format("{} domains", domains.size());
}

std::string Fields::render() const {
  std::size_t width = 0;
  for (const auto& [name, value] : lines) width = std::max(width, display_width(name));
  std::string text;
  for (const auto& [name, value] : lines) {
    text += fmt::format("{}{:{}}  {}\n", name, "", width - display_width(name), printable(value));
  }
  return text;
}

Result<void> print_object(Format format, const Json& json, const std::string& text) {
  if (format == Format::kTable) return print(text);
  return print(
      json.dump(format == Format::kJson ? 2 : -1, ' ', false, Json::error_handler_t::replace));
}

Result<void> print_plan(Format format, const std::vector<PlannedOperation>& plan,
                        const PartitionNames& names) {
  if (plan.empty() && format == Format::kTable)
    return print("nothing would be done on the fabric\n");
  Table table({"STEP", "OPERATION", "PARTITION", "GPUS", "DOMAIN", "GPU UIDS"});
  std::vector<Json> rows;
  for (const PlannedOperation& each : plan) {
    table.add({fmt::format("{}", rows.size() + 1), each.kind,
               each.partition ? name_of(names, *each.partition) : "",
               fmt::format("{}", each.gpu_uids.size()), each.domain ? each.domain->to_string() : "",
               fmt::format("{}", fmt::join(each.gpu_uids, ","))});
    rows.push_back(to_json(each));
  }
  return print(render_list(format, "operations", rows, table));
}

}  // namespace imex::cli
