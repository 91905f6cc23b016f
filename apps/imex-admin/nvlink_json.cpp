// Reads JSON from outside: what an operator typed, and what a fabric manager listed.
#include <algorithm>

#include "base/text.hpp"
#include "base/uuid.hpp"
#include "commands.hpp"

namespace imex::admin {
namespace {

constexpr const char* kExample =
    R"(write {"gpu_configs": [{"device_instance": 0, "logical_partition_id": "UUID"}]}; an empty )"
    R"(list takes all GPUs out of their partitions)";

Error wrong_config(const std::string& what) {
  return {Errc::kInvalidArgument, "--config: " + what, kExample};
}

Result<Json> parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return fail(Errc::kDataLoss, "not JSON");
  return json;
}

/// A number without sign up to `max` under `key`; nothing where it is something else.
std::optional<std::uint64_t> number_at(const Json& json, const char* key, std::uint64_t max) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto number = found->get<std::uint64_t>();
  return number <= max ? std::optional(number) : std::nullopt;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The UUID as text, or as NICo's own programs print it: {"value": text}.
Result<std::string> partition_of(const Json& value) {
  const std::string text = value.is_object()   ? text_at(value, "value")
                           : value.is_string() ? value.get<std::string>()
                                               : std::string();
  if (Uuid::parse(text)) return text;
  return fail(wrong_config("logical_partition_id is no UUID"));
}

Result<void> add_gpu(const Json& entry, pb::InstanceNVLinkConfig& config) {
  if (!entry.is_object()) return fail(wrong_config("an entry of gpu_configs is no object"));
  for (const auto& [key, value] : entry.items()) {
    if (key != "device_instance" && key != "logical_partition_id")
      return fail(wrong_config(fmt::format("unknown key '{}'", printable(key))));
  }
  const auto device = number_at(entry, "device_instance", UINT32_MAX);
  if (!device) return fail(wrong_config("an entry has no device_instance, a number from 0"));
  pb::InstanceNVLinkGpuConfig& gpu = *config.add_gpu_configs();
  gpu.set_device_instance(static_cast<std::uint32_t>(*device));
  const auto partition = entry.find("logical_partition_id");
  if (partition == entry.end() || partition->is_null()) return {};
  IMEX_TRY(const std::string id, partition_of(*partition));
  gpu.mutable_logical_partition_id()->set_value(id);
  return {};
}

Error wrong_list(const std::string& what) {
  return {Errc::kDataLoss, "the controller's list of GPUs: " + what,
          "see whether imex-admin and the controller are of the same version"};
}

/// Adds the GPU if it is of that tray.
Result<void> add_if_there(const Json& gpu, const std::string& chassis_serial,
                          std::uint32_t tray_index, pb::MachineNVLinkInfo& info) {
  constexpr std::uint64_t kPositionMax = 1'000'000;
  const auto loc = gpu.is_object() ? gpu.find("loc") : gpu.end();
  if (loc == gpu.end()) return fail(wrong_list("an entry has no place"));
  const auto tray = number_at(*loc, "tray_index", kPositionMax);
  if (text_at(*loc, "chassis_serial_number") != chassis_serial || tray != tray_index) return {};
  const auto uid = number_at(gpu, "gpu_uid", UINT64_MAX);
  const auto device = number_at(gpu, "gpu_id", kPositionMax);
  const auto place = loc->find("location");
  const auto slot = place == loc->end() ? std::nullopt : number_at(*place, "slot_id", kPositionMax);
  if (!uid || !device || !slot)
    return fail(wrong_list("an entry lacks gpu_uid, gpu_id or slot_id"));
  pb::NVLinkGpu& row = *info.add_gpus();
  row.set_tray_index(static_cast<std::int32_t>(*tray));
  row.set_slot_id(static_cast<std::int32_t>(*slot));
  row.set_device_id(static_cast<std::int32_t>(*device));
  row.set_guid(*uid);
  return {};
}

}  // namespace

Result<pb::InstanceNVLinkConfig> parse_nvlink_config(const std::string& text) {
  const auto json = parse(text);
  if (!json) return fail(wrong_config("not JSON"));
  if (!json->is_object() || json->size() != 1 || !json->contains("gpu_configs") ||
      !(*json)["gpu_configs"].is_array())
    return fail(wrong_config("not an object with the one key gpu_configs, a list"));
  pb::InstanceNVLinkConfig config;
  for (const Json& entry : (*json)["gpu_configs"]) IMEX_CHECK_OK(add_gpu(entry, config));
  return config;
}

Result<pb::MachineNVLinkInfo> nvlink_info_of(const std::string& gpu_list,
                                             const std::string& chassis_serial,
                                             std::uint32_t tray_index) {
  const auto json = parse(gpu_list);
  if (!json) return fail(wrong_list("not JSON"));
  const auto list = json->is_object() ? json->find("gpu_info_list") : json->end();
  if (list == json->end() || !list->is_array())
    return fail(wrong_list("there is no gpu_info_list"));
  pb::MachineNVLinkInfo info;
  for (const Json& gpu : *list) IMEX_CHECK_OK(add_if_there(gpu, chassis_serial, tray_index, info));
  if (info.gpus_size() == 0) {
    return fail(Errc::kNotFound,
                fmt::format("the fabric manager lists no GPU in tray {} of chassis '{}', and {} "
                            "elsewhere",
                            tray_index, printable(chassis_serial), list->size()),
                "see whether the tray is powered, and whether chassis and tray are right: "
                "--chassis-serial, --tray-index");
  }
  std::sort(
      info.mutable_gpus()->begin(), info.mutable_gpus()->end(),
      [](const pb::NVLinkGpu& a, const pb::NVLinkGpu& b) { return a.device_id() < b.device_id(); });
  const auto header = json->find("server_header");
  const std::string domain = header == json->end() ? "" : text_at(*header, "domain_uuid");
  if (!Uuid::parse(domain)) return fail(wrong_list("it names no domain"));
  info.mutable_domain_uuid()->set_value(domain);
  info.set_chassis_serial(chassis_serial);
  return info;
}

}  // namespace imex::admin
