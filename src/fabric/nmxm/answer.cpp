#include "answer.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "fabric/check.hpp"

namespace imex::fabric::nmxm {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kListMax = 100'000;  ///< an NMX-M holds many domains
constexpr std::size_t kQuotedMax = 200;

auto bad_answer(std::string message) {
  return fail(Errc::kDataLoss, std::move(message),
              "is this an NMX-M? see its version and the gateway before it");
}

/// An object and what it is called in messages.
struct Object {
  const Json& json;
  std::string_view what;

  /// Null stands for "not there", too.
  [[nodiscard]] const Json* find(const char* key) const {
    const auto at = json.find(key);
    return at == json.end() || at->is_null() ? nullptr : &*at;
  }
  [[nodiscard]] Result<std::uint64_t> number(const char* key, std::uint64_t max,
                                             bool required) const {
    const Json* value = find(key);
    if (value == nullptr) {
      if (required) return bad_answer(fmt::format("{}: no {}", what, key));
      return std::uint64_t{0};
    }
    // Through a double, large uids would change.
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > max)
      return bad_answer(fmt::format("{}: {} is no whole number up to {}", what, key, max));
    return value->get<std::uint64_t>();
  }
  [[nodiscard]] Result<std::string> text(const char* key, std::size_t bytes_max,
                                         bool required) const {
    const Json* value = find(key);
    if (value == nullptr) {
      if (required) return bad_answer(fmt::format("{}: no {}", what, key));
      return std::string();
    }
    if (!value->is_string()) return bad_answer(fmt::format("{}: {} is no text", what, key));
    return bounded_text(value->get_ref<const std::string&>(), bytes_max,
                        fmt::format("{}: {}", what, key));
  }
  [[nodiscard]] Result<std::optional<Uuid>> uuid(const char* key) const {
    IMEX_TRY(const std::string text, this->text(key, 64, false));
    if (text.empty()) return std::optional<Uuid>();
    auto uuid = Uuid::parse(text);
    if (!uuid) return bad_answer(fmt::format("{}: {} '{}' is no UUID", what, key, printable(text)));
    return std::optional<Uuid>(*uuid);
  }
};

Result<Json> parse(std::string_view text, std::string_view what) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    return bad_answer(
        fmt::format("{}: no JSON: '{}'", what, printable(text.substr(0, kQuotedMax))));
  return json;
}

/// Calls `read` for each object of a list, or for the one object that came instead of a list.
template <class Entry, class Read>
Result<std::vector<Entry>> read_list(std::string_view text, std::string_view what, Read read) {
  IMEX_TRY(const Json json, parse(text, what));
  std::vector<Entry> entries;
  if (json.is_null()) return entries;
  const Json one = json.is_object() ? Json::array({json}) : Json();
  const Json& list = json.is_object() ? one : json;
  if (!list.is_array()) return bad_answer(fmt::format("{}: neither a list nor an object", what));
  if (list.size() > kListMax)
    return bad_answer(
        fmt::format("{}: {} entries, at most {} are read", what, list.size(), kListMax));
  entries.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_object()) return bad_answer(fmt::format("{}: an entry is no object", what));
    IMEX_TRY(Entry entry, read(Object{item, what}));
    entries.push_back(std::move(entry));
  }
  return entries;
}

template <class Enum, std::size_t N>
Enum enum_of(const std::array<std::pair<std::string_view, Enum>, N>& words, std::string_view word,
             Enum otherwise) {
  for (const auto& [text, value] : words)
    if (text == word) return value;
  return otherwise;
}

constexpr std::array kGpuHealths{
    std::pair{std::string_view("HEALTHY"), GpuHealth::kHealthy},
    std::pair{std::string_view("DEGRADED"), GpuHealth::kDegraded},
    std::pair{std::string_view("NO_NVLINK"), GpuHealth::kNoNvlink},
    std::pair{std::string_view("DEGRADED_BW"), GpuHealth::kDegradedBandwidth}};
constexpr std::array kNodeHealths{std::pair{std::string_view("HEALTHY"), NodeHealth::kHealthy},
                                  std::pair{std::string_view("DEGRADED"), NodeHealth::kDegraded},
                                  std::pair{std::string_view("UNHEALTHY"), NodeHealth::kUnhealthy}};
constexpr std::array kPartitionHealths{
    std::pair{std::string_view("HEALTHY"), PartitionHealth::kHealthy},
    std::pair{std::string_view("DEGRADED"), PartitionHealth::kDegraded},
    std::pair{std::string_view("DEGRADED_BANDWIDTH"), PartitionHealth::kDegradedBandwidth},
    std::pair{std::string_view("BANDWIDTH"),
              PartitionHealth::kDegradedBandwidth},  // in the manuals' text
    std::pair{std::string_view("UNHEALTHY"), PartitionHealth::kUnhealthy},
    std::pair{std::string_view("NEW"), PartitionHealth::kNew}};
constexpr std::array kKinds{
    std::pair{std::string_view("ID_BASED"), PartitionKind::kByUid},
    std::pair{std::string_view("LOCATION_BASED"), PartitionKind::kByLocation}};
constexpr std::array kPlanes{
    std::pair{std::string_view("UP"), ControlPlaneState::kConfigured},
    std::pair{std::string_view("IN_PROGRESS"), ControlPlaneState::kUnconfigured},
    std::pair{std::string_view("DRAINING"), ControlPlaneState::kOffline},
    std::pair{std::string_view("REMOVED"), ControlPlaneState::kOffline},
    std::pair{std::string_view("DOWN"), ControlPlaneState::kOffline},
    std::pair{std::string_view("RECONNECTING"), ControlPlaneState::kTimeout},
    std::pair{std::string_view("UNREACHABLE"), ControlPlaneState::kTimeout},
    std::pair{std::string_view("ERROR"), ControlPlaneState::kError}};

Result<HostPlace> read_place(const Object& object) {
  HostPlace place;
  const Json* json = object.find("LocationInfo");
  if (json == nullptr) return place;
  if (!json->is_object())
    return bad_answer(fmt::format("{}: LocationInfo is no object", object.what));
  const Object location{*json, object.what};
  IMEX_TRY(place.chassis_id, location.number("ChassisID", UINT64_MAX, false));
  IMEX_TRY(place.chassis_serial, location.text("ChassisSerialNumber", kPartitionNameMax, false));
  IMEX_TRY(place.slot_id, location.number("SlotID", UINT64_MAX, false));
  IMEX_TRY(place.tray_index, location.number("TrayIndex", UINT64_MAX, false));
  IMEX_TRY(place.host_id, location.number("HostID", UINT64_MAX, false));
  return place;
}

Result<Member> read_member(const Json& json) {
  constexpr std::string_view kWhat = "members of a partition";
  Member member;
  if (json.is_string()) {
    IMEX_TRY(member.entity, bounded_text(json.get_ref<const std::string&>(), kEntityIdMax, kWhat));
    if (member.entity.empty()) return bad_answer("members of a partition: an empty id");
    return member;
  }
  if (!json.is_object()) return bad_answer("members of a partition: neither ids nor locations");
  const Object object{json, kWhat};
  IMEX_TRY(member.domain, object.uuid("DomainUUID"));
  IMEX_TRY(member.chassis_id, object.number("ChassisID", UINT64_MAX, true));
  IMEX_TRY(member.slot_id, object.number("SlotID", UINT64_MAX, true));
  IMEX_TRY(member.host_id, object.number("HostID", UINT64_MAX, true));
  IMEX_TRY(const std::uint64_t device, object.number("DeviceID", UINT32_MAX, true));
  member.device_id = static_cast<std::uint32_t>(device);
  return member;
}

Result<std::string> read_entity(const Object& object) {
  IMEX_TRY(std::string entity, object.text("ID", kEntityIdMax, true));
  if (entity.empty()) return bad_answer(fmt::format("{}: an empty ID", object.what));
  return entity;
}

Json members_json(const std::vector<Member>& members) {
  Json list = Json::array();
  for (const Member& member : members) {
    if (!member.entity.empty()) {
      list.push_back(member.entity);
      continue;
    }
    list.push_back({{"DomainUUID", member.domain.value_or(Uuid{}).to_string()},
                    {"ChassisID", member.chassis_id},
                    {"SlotID", member.slot_id},
                    {"HostID", member.host_id},
                    {"DeviceID", member.device_id}});
  }
  return list;
}

}  // namespace

Result<std::vector<GpuEntry>> read_gpus(std::string_view json) {
  return read_list<GpuEntry>(json, "list of GPUs", [](const Object& object) -> Result<GpuEntry> {
    GpuEntry entry;
    IMEX_TRY(entry.entity, read_entity(object));
    IMEX_TRY(entry.domain, object.uuid("DomainUUID"));
    IMEX_TRY(entry.gpu.uid, object.number("DeviceUID", UINT64_MAX, true));
    IMEX_TRY(const std::uint64_t module, object.number("DeviceID", UINT32_MAX, true));
    entry.gpu.module_id = static_cast<std::uint32_t>(module);
    IMEX_TRY(entry.gpu.place, read_place(object));
    IMEX_TRY(const std::string health, object.text("Health", kEntityIdMax, false));
    entry.gpu.health = enum_of(kGpuHealths, health, GpuHealth::kUnknown);
    IMEX_TRY(const std::uint64_t partition, object.number("PartitionID", UINT32_MAX, false));
    if (partition != 0) entry.gpu.partition_id = static_cast<std::uint32_t>(partition);
    return entry;
  });
}

Result<std::vector<PartitionEntry>> read_partitions(std::string_view json) {
  return read_list<PartitionEntry>(
      json, "list of partitions", [](const Object& object) -> Result<PartitionEntry> {
        PartitionEntry entry;
        IMEX_TRY(entry.entity, read_entity(object));
        IMEX_TRY(const std::uint64_t id, object.number("PartitionID", UINT32_MAX, true));
        entry.partition.id = static_cast<std::uint32_t>(id);
        IMEX_TRY(entry.partition.name, object.text("Name", kAnswerTextMax, true));
        IMEX_TRY(const std::string kind, object.text("Type", kEntityIdMax, false));
        entry.partition.kind = enum_of(kKinds, kind, PartitionKind::kUndefined);
        IMEX_TRY(const std::string health, object.text("Health", kEntityIdMax, false));
        entry.partition.health = enum_of(kPartitionHealths, health, PartitionHealth::kUnknown);
        const Json* members = object.find("Members");
        if (members == nullptr) return entry;
        if (!members->is_array()) return bad_answer("list of partitions: Members is no list");
        if (members->size() > kDomainGpusMax)
          return bad_answer(fmt::format("a partition with {} members", members->size()));
        for (const Json& item : *members) {
          IMEX_TRY(Member member, read_member(item));
          entry.members.push_back(std::move(member));
        }
        return entry;
      });
}

Result<std::vector<NodeEntry>> read_nodes(std::string_view json) {
  return read_list<NodeEntry>(
      json, "list of compute nodes", [](const Object& object) -> Result<NodeEntry> {
        NodeEntry entry;
        IMEX_TRY(entry.domain, object.uuid("DomainUUID"));
        IMEX_TRY(entry.node.place, read_place(object));
        IMEX_TRY(const std::string health, object.text("Health", kEntityIdMax, false));
        entry.node.health = enum_of(kNodeHealths, health, NodeHealth::kUnknown);
        return entry;
      });
}

Result<std::vector<ServiceEntry>> read_services(std::string_view json) {
  return read_list<ServiceEntry>(
      json, "list of services", [](const Object& object) -> Result<ServiceEntry> {
        ServiceEntry entry;
        IMEX_TRY(entry.domain, object.uuid("ClusterDomainUUID"));
        IMEX_TRY(const std::string type, object.text("ServiceType", kEntityIdMax, false));
        entry.controller = type == "CONTROLLER";
        IMEX_TRY(entry.instance, object.text("ApplicationUUID", kEntityIdMax, false));
        IMEX_TRY(entry.version, object.text("Version", kAnswerTextMax, false));
        IMEX_TRY(entry.status, object.text("Status", kEntityIdMax, false));
        IMEX_TRY(entry.status_text, object.text("StatusInfo", kAnswerTextMax, false));
        return entry;
      });
}

Result<Operation> read_operation(std::string_view json) {
  IMEX_TRY(auto operations,
           read_list<Operation>(json, "operation", [](const Object& object) -> Result<Operation> {
             Operation operation;
             IMEX_TRY(const std::string status, object.text("Status", kEntityIdMax, true));
             if (status == "completed")
               operation.status = Operation::Status::kCompleted;
             else if (status == "failed")
               operation.status = Operation::Status::kFailed;
             else if (status == "cancelled")
               operation.status = Operation::Status::kCancelled;
             IMEX_TRY(operation.step, object.text("CurrentStep", kAnswerTextMax, false));
             if (const Json* percentage = object.find("Percentage");
                 percentage != nullptr && percentage->is_number())
               operation.percentage = percentage->get<double>();
             const Json* result = object.find("Result");
             if (result == nullptr || !result->is_object()) return operation;
             const Object inner{*result, "result of an operation"};
             IMEX_TRY(operation.error, inner.text("Error", kAnswerTextMax, false));
             IMEX_TRY(operation.details, inner.text("Details", kAnswerTextMax, false));
             return operation;
           }));
  if (operations.size() != 1)
    return bad_answer(fmt::format("operation: {} entries instead of one", operations.size()));
  return std::move(operations.front());
}

Result<std::string> read_operation_id(std::string_view json) {
  IMEX_TRY(const Json answer, parse(json, "answer to a change"));
  if (!answer.is_object()) return bad_answer("answer to a change: no object");
  IMEX_TRY(std::string id,
           (Object{answer, "answer to a change"}.text("operationId", kEntityIdMax, true)));
  if (id.empty()) return bad_answer("answer to a change: an empty operationId");
  return id;
}

std::string read_error(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  const auto text_at = [&json](const char* key) -> std::string {
    const auto at = json.find(key);
    return at != json.end() && at->is_string()
               ? printable(at->get_ref<const std::string&>().substr(0, kAnswerTextMax))
               : std::string();
  };
  if (json.is_object()) {
    const std::string description = text_at("description"), code = text_at("customErrorCode"),
                      message = text_at("message");
    if (!description.empty() && !code.empty()) return fmt::format("{} ({})", description, code);
    for (const std::string& text : {description, code, message})
      if (!text.empty()) return text;
  }
  return body.empty() ? std::string("an empty body") : printable(body.substr(0, kQuotedMax));
}

ControlPlaneState control_plane_of(std::string_view service_status) noexcept {
  return enum_of(kPlanes, service_status, ControlPlaneState::kUndefined);
}

std::string create_body(const std::string& name, const std::vector<Member>& members) {
  return Json{{"Name", name}, {"Members", members_json(members)}}.dump();
}

std::string update_body(const std::vector<Member>& members) {
  return Json{{"Members", members_json(members)}}.dump();
}

}  // namespace imex::fabric::nmxm
