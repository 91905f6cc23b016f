#include "decode.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "json/json.hpp"

namespace imex::partition::client {
namespace {

using Value = nlohmann::json;

Result<void> check_object(const Value& json) {
  if (json.is_object()) return {};
  return fail(Errc::kInvalidArgument, fmt::format("want an object, not {}", json.type_name()));
}

template <class IdOf>
Result<IdOf> id_at(const Value& json, std::string_view key) {
  IMEX_TRY(const std::string text, json::required_string(json, key));
  auto uuid = Uuid::parse(text);
  if (!uuid) return fail(std::move(uuid).error().context(fmt::format("'{}'", key)));
  return IdOf{*uuid};
}

/// Absent, null and empty text all mean none.
template <class IdOf>
Result<std::optional<IdOf>> optional_id_at(const Value& json, std::string_view key) {
  IMEX_TRY(const auto text, json::optional_string(json, key));
  if (!text || text->empty()) return std::optional<IdOf>();
  IMEX_TRY(const IdOf id, id_at<IdOf>(json, key));
  return std::optional(id);
}

Result<Status> status_at(const Value& json, Kind kind) {
  IMEX_TRY(const std::string name, json::required_string(json, "status"));
  const auto status = parse_status(name);
  if (status && is_status_of(kind, *status)) return *status;
  return fail(Errc::kInvalidArgument,
              fmt::format("'status': '{}' is no state of a {}", printable(name), kind_name(kind)));
}

Result<std::string> text_at(const Value& json, std::string_view key) {
  IMEX_TRY(auto text, json::optional_string(json, key));
  return std::move(text).value_or(std::string());
}

Result<std::uint32_t> u32_at(const Value& json, std::string_view key) {
  IMEX_TRY(const auto number, json::optional_u64(json, key));
  if (number.value_or(0) > UINT32_MAX) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}': {} is beyond 32 bits", key, *number));
  }
  return static_cast<std::uint32_t>(number.value_or(0));
}

/// Each element of the array at `key`; absent and null are empty.
template <class T, class Decode>
Result<std::vector<T>> list_at(const Value& json, std::string_view key, Decode decode) {
  std::vector<T> all;
  const Value* const list = json::find(json, key);
  if (list == nullptr) return all;
  if (!list->is_array()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}' must be an array, not {}", key, list->type_name()));
  }
  for (const Value& element : *list) {
    auto decoded = decode(element);
    if (!decoded) {
      return fail(std::move(decoded).error().context(fmt::format("{}[{}]", key, all.size())));
    }
    all.push_back(std::move(*decoded));
  }
  return all;
}

Result<std::vector<StatusNote>> history_of(const Value& json, Kind kind) {
  return list_at<StatusNote>(json, "statusHistory", [&](const Value& entry) -> Result<StatusNote> {
    IMEX_CHECK_OK(check_object(entry));
    StatusNote note;
    IMEX_TRY(note.status, status_at(entry, kind));
    IMEX_TRY(note.message, text_at(entry, "message"));
    IMEX_TRY(note.updated, text_at(entry, "updated"));
    return note;
  });
}

Result<std::optional<FailureNote>> failure_of(const Value& json) {
  const Value* const found = json::find(json, "lastError");
  if (found == nullptr) return std::optional<FailureNote>();
  IMEX_CHECK_OK(check_object(*found));
  FailureNote note;
  IMEX_TRY(note.message, text_at(*found, "message"));
  IMEX_TRY(note.at, text_at(*found, "time"));
  IMEX_TRY(const auto count, json::optional_u64(*found, "count"));
  note.count = count.value_or(0);
  return std::optional(std::move(note));
}

/// Unknown modes are of later versions: nothing here depends on them.
Result<ResiliencyMode> resiliency_of(const Value& json) {
  IMEX_TRY(const std::string mode, text_at(json, "resiliencyMode"));
  return parse_resiliency_mode(mode).value_or(ResiliencyMode::kUnset);
}

Result<std::map<std::string, std::string>> labels_of(const Value& json) {
  std::map<std::string, std::string> labels;
  const Value* const found = json::find(json, "labels");
  if (found == nullptr) return labels;
  IMEX_CHECK_OK(check_object(*found));
  for (const auto& [key, value] : found->items()) {
    IMEX_TRY(labels[key], json::required_string(*found, key));
  }
  return labels;
}

/// 64-bit uids come as decimal text: many readers of JSON round numbers beyond 2^53.
Result<std::uint64_t> parse_uid(const std::string& text) {
  std::uint64_t uid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  if (error == std::errc() && end == text.data() + text.size()) return uid;
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is no GPU uid", printable(text)));
}

Result<std::uint64_t> decode_uid(const Value& json) {
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_string()) return parse_uid(json.get_ref<const std::string&>());
  return fail(Errc::kInvalidArgument, fmt::format("want a GPU uid, not {}", json.type_name()));
}

Result<Reference<VpcId>> decode_vpc_reference(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  Reference<VpcId> reference;
  IMEX_TRY(reference.id, id_at<VpcId>(json, "id"));
  IMEX_TRY(reference.name, text_at(json, "name"));
  return reference;
}

Result<PlannedOperation> decode_operation(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  PlannedOperation operation;
  IMEX_TRY(operation.kind, json::required_string(json, "kind"));
  IMEX_TRY(operation.domain, optional_id_at<DomainId>(json, "nvLinkDomainId"));
  IMEX_TRY(operation.partition,
           optional_id_at<LogicalPartitionId>(json, "nvLinkLogicalPartitionId"));
  IMEX_TRY(operation.fabric_id, u32_at(json, "fabricPartitionId"));
  IMEX_TRY(operation.gpu_uids, list_at<std::uint64_t>(json, "gpuGuids", decode_uid));
  return operation;
}

/// GPUs of each machine behind NVLink, from the capabilities of an instance type.
Result<std::uint32_t> nvlink_gpus_of(const Value& json) {
  const Value* const capabilities = json::find(json, "machineCapabilities");
  if (capabilities == nullptr || !capabilities->is_array()) return 0U;
  for (const Value& capability : *capabilities) {
    IMEX_TRY(const std::string type, text_at(capability, "type"));
    IMEX_TRY(const std::string device, text_at(capability, "deviceType"));
    if (type == "GPU" && device == "NVLink") return u32_at(capability, "count");
  }
  return 0U;
}

}  // namespace

Result<InterfaceView> decode_interface(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  InterfaceView view;
  IMEX_TRY(view.id, id_at<InterfaceId>(json, "id"));
  IMEX_TRY(view.instance, id_at<InstanceId>(json, "instanceId"));
  IMEX_TRY(view.partition, id_at<LogicalPartitionId>(json, "nvLinkLogicalPartitionId"));
  IMEX_TRY(view.device_instance, u32_at(json, "deviceInstance"));
  IMEX_TRY(view.status, status_at(json, Kind::kInterface));
  IMEX_TRY(view.domain, optional_id_at<DomainId>(json, "nvLinkDomainId"));
  IMEX_TRY(const auto uid, json::optional_string(json, "gpuGuid"));
  if (uid && !uid->empty()) {
    IMEX_TRY(view.gpu_uid, parse_uid(*uid));
  }
  IMEX_TRY(view.failure, failure_of(json));
  return view;
}

Result<PartitionView> decode_partition(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  PartitionView view;
  IMEX_TRY(view.id, id_at<LogicalPartitionId>(json, "id"));
  IMEX_TRY(view.name, json::required_string(json, "name"));
  IMEX_TRY(view.description, text_at(json, "description"));
  IMEX_TRY(view.site, id_at<SiteId>(json, "siteId"));
  IMEX_TRY(view.status, status_at(json, Kind::kLogicalPartition));
  if (const Value* const stats = json::find(json, "nvLinkLogicalPartitionStats")) {
    IMEX_CHECK_OK(check_object(*stats));
    IMEX_TRY(view.gpus, u32_at(*stats, "totalGpus"));
    IMEX_TRY(view.instances, u32_at(*stats, "totalDistinctInstances"));
  }
  if (json::find(json, "multicastGroups") != nullptr) {
    IMEX_TRY(view.multicast_groups, u32_at(json, "multicastGroups"));
  }
  IMEX_TRY(view.resiliency, resiliency_of(json));
  IMEX_TRY(view.failure, failure_of(json));
  IMEX_TRY(view.default_of, list_at<Reference<VpcId>>(json, "vpcs", decode_vpc_reference));
  IMEX_TRY(view.history, history_of(json, Kind::kLogicalPartition));
  IMEX_TRY(view.created, text_at(json, "created"));
  IMEX_TRY(view.updated, text_at(json, "updated"));
  return view;
}

Result<VpcView> decode_vpc(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  VpcView view;
  IMEX_TRY(view.id, id_at<VpcId>(json, "id"));
  IMEX_TRY(view.name, json::required_string(json, "name"));
  IMEX_TRY(view.description, text_at(json, "description"));
  IMEX_TRY(view.site, optional_id_at<SiteId>(json, "siteId"));
  IMEX_TRY(view.default_partition,
           optional_id_at<LogicalPartitionId>(json, "nvLinkLogicalPartitionId"));
  IMEX_TRY(view.status, status_at(json, Kind::kVpc));
  IMEX_TRY(view.labels, labels_of(json));
  IMEX_TRY(view.history, history_of(json, Kind::kVpc));
  IMEX_TRY(view.created, text_at(json, "created"));
  IMEX_TRY(view.updated, text_at(json, "updated"));
  return view;
}

Result<InstanceView> decode_instance(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  InstanceView view;
  IMEX_TRY(view.id, id_at<InstanceId>(json, "id"));
  IMEX_TRY(view.name, json::required_string(json, "name"));
  IMEX_TRY(view.description, text_at(json, "description"));
  IMEX_TRY(view.site, id_at<SiteId>(json, "siteId"));
  IMEX_TRY(view.vpc, id_at<VpcId>(json, "vpcId"));
  IMEX_TRY(view.instance_type, optional_id_at<InstanceTypeId>(json, "instanceTypeId"));
  IMEX_TRY(view.machine, text_at(json, "machineId"));
  IMEX_TRY(view.status, status_at(json, Kind::kInstance));
  IMEX_TRY(view.labels, labels_of(json));
  IMEX_TRY(view.interfaces, list_at<InterfaceView>(json, "nvLinkInterfaces", decode_interface));
  std::ranges::sort(view.interfaces, {}, [](const InterfaceView& each) {
    return std::tuple(each.device_instance, each.status, each.id);
  });
  IMEX_TRY(view.history, history_of(json, Kind::kInstance));
  IMEX_TRY(view.created, text_at(json, "created"));
  IMEX_TRY(view.updated, text_at(json, "updated"));
  return view;
}

Result<SiteView> decode_site(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  SiteView view;
  IMEX_TRY(view.id, id_at<SiteId>(json, "id"));
  IMEX_TRY(view.name, json::required_string(json, "name"));
  IMEX_TRY(view.status, status_at(json, Kind::kSite));
  if (const Value* const capabilities = json::find(json, "capabilities")) {
    IMEX_CHECK_OK(check_object(*capabilities));
    IMEX_TRY(const auto nvlink, json::optional_bool(*capabilities, "nvLinkPartition"));
    view.nvlink_partition = nvlink.value_or(false);
  }
  return view;
}

Result<InstanceTypeView> decode_instance_type(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  InstanceTypeView view;
  IMEX_TRY(view.id, id_at<InstanceTypeId>(json, "id"));
  IMEX_TRY(view.name, json::required_string(json, "name"));
  IMEX_TRY(view.site, id_at<SiteId>(json, "siteId"));
  IMEX_TRY(view.nvlink_gpus, nvlink_gpus_of(json));
  return view;
}

Result<TenantId> decode_tenant(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  return id_at<TenantId>(json, "id");
}

Result<std::vector<PlannedOperation>> decode_plan(const Value& json) {
  IMEX_CHECK_OK(check_object(json));
  if (json::find(json, "operations") == nullptr) {
    return fail(Errc::kInvalidArgument, "'operations' is missing");
  }
  return list_at<PlannedOperation>(json, "operations", decode_operation);
}

std::vector<SharingGroup> sharing_groups(const std::vector<InterfaceView>& all) {
  std::map<DomainId, SharingGroup> groups;
  for (const InterfaceView& each : all) {
    if (each.status != Status::kReady || !each.domain) continue;
    SharingGroup& group = groups[*each.domain];
    group.domain = *each.domain;
    group.interfaces.push_back(each);
  }
  std::vector<SharingGroup> sorted;
  for (auto& [domain, group] : groups) {
    std::ranges::sort(group.interfaces, {}, [](const InterfaceView& each) {
      return std::tuple(each.instance, each.device_instance);
    });
    sorted.push_back(std::move(group));
  }
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const SharingGroup& group) { return group.interfaces.size(); });
  return sorted;
}

}  // namespace imex::partition::client
