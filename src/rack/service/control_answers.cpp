#include "control_answers.hpp"

#include <array>

#include <fmt/format.h>

#include "fault_json.hpp"
#include "os/process.hpp"

namespace imex::rack {

using nlohmann::json;

namespace {

Result<RackEntry*> named_rack(Rack& rack, const json& request) {
  IMEX_TRY(const std::string name, json_text(request, "domain"));
  if (name.empty()) {
    if (rack.entries().size() == 1) return &rack.entries().front();
    return fail(Errc::kInvalidArgument, fmt::format("domain: missing; there are rack-0 to rack-{}",
                                                    rack.entries().size() - 1));
  }
  RackEntry* entry = rack.find(name);
  if (entry == nullptr)
    return fail(Errc::kNotFound, fmt::format("domain '{}': there is none", name));
  return entry;
}

json rack_facts(RackEntry& entry, const std::string& address) {
  MutexLock lock(entry.host->mutex);
  const Domain& domain = entry.host->domain;
  json serials = json::array();
  for (unsigned chassis = 0; chassis < domain.shape().chassis; ++chassis)
    serials.push_back(domain.chassis_serial(chassis));
  json ports = json::array();
  if (entry.primary) ports.push_back(entry.primary_port);
  if (entry.standby) ports.push_back(entry.standby_port);
  return {{"name", domain.options().name},
          {"domain_uuid", domain.uuid().to_string()},
          {"instance_uuid", domain.instance().to_string()},
          {"chassis_serials", std::move(serials)},
          {"topology", domain.shape().name},
          {"address", address},
          {"port", entry.primary_port},
          {"standby_port", entry.standby_port},
          {"serving_ports", std::move(ports)},
          {"ready", domain.ready()},
          {"gpus", domain.gpus().size()},
          {"trays", domain.shape().tray_count()},
          {"partitions", domain.partitions().size()},
          {"groups_left", domain.groups_left()},
          {"control_plane", static_cast<unsigned>(domain.control_plane())},
          {"controller_health", static_cast<unsigned>(domain.controller_health())},
          {"subscribers", entry.host->subscriber_count()},
          {"faults", domain.faults().all().size()}};
}

json status(Rack& rack) {
  json racks = json::array();
  for (RackEntry& entry : rack.entries())
    racks.push_back(rack_facts(entry, rack.options().address));
  return {{"racks", std::move(racks)}, {"control", rack.options().control_path}};
}

Result<json> list_faults(Rack& rack, const json& /*request*/) {
  json found = json::array();
  for (RackEntry& entry : rack.entries()) {
    MutexLock lock(entry.host->mutex);
    const Time now = os::now();
    for (const auto& [id, fault] : entry.host->domain.faults().all()) {
      json one = fault_to_json(fault, now);
      one["domain"] = entry.host->domain.options().name;
      found.push_back(std::move(one));
    }
  }
  if (rack.manager() != nullptr) {
    for (const Fault& fault : rack.manager()->faults())
      found.push_back(fault_to_json(fault, os::now()));
  }
  return json{{"faults", std::move(found)}};
}

Result<json> set_fault(Rack& rack, const json& request) {
  const Time now = os::now();
  IMEX_TRY(Fault fault, fault_from_json(request, now));
  if (facts_of(fault.kind).manager) {
    if (rack.manager() == nullptr)
      return fail(Errc::kFailedPrecondition, "there is no manager: start with --nmxm-listen");
    IMEX_TRY(const std::uint64_t of_manager, rack.manager()->inject(std::move(fault), now));
    rack.pulse();
    return json{{"id", of_manager}};
  }
  IMEX_TRY(RackEntry* const entry, named_rack(rack, request));
  std::uint64_t id = 0;
  {
    MutexLock lock(entry->host->mutex);
    IMEX_TRY(id, entry->host->domain.inject(std::move(fault), now));
    entry->host->settle(nullptr, {});
  }
  rack.pulse();
  return json{{"id", id}};
}

Result<json> clear_faults(Rack& rack, const json& request) {
  IMEX_TRY(const auto id, json_number(request, "id", UINT64_MAX));
  IMEX_TRY(const std::string kind_name, json_text(request, "kind"));
  std::optional<FaultKind> kind;
  if (!kind_name.empty()) {
    IMEX_TRY(kind, find_fault(kind_name));
  }
  std::vector<RackEntry*> where;
  if (request.contains("domain") || (id && !request.value("manager", false))) {
    IMEX_TRY(RackEntry* const entry, named_rack(rack, request));
    where.push_back(entry);
  } else {
    for (RackEntry& entry : rack.entries()) where.push_back(&entry);
  }
  std::size_t count = 0;
  const bool of_manager =
      kind ? facts_of(*kind).manager : request.value("manager", !request.contains("domain") && !id);
  if (of_manager && rack.manager() != nullptr) count += rack.manager()->clear_faults(id, kind);
  if (of_manager && (id || kind)) where.clear();
  for (RackEntry* entry : where) {
    MutexLock lock(entry->host->mutex);
    Domain& domain = entry->host->domain;
    count +=
        id ? (domain.clear_fault(*id, os::now()) ? 1U : 0U) : domain.clear_faults(kind, os::now());
    entry->host->settle(nullptr, {});
  }
  if (id && count == 0) return fail(Errc::kNotFound, fmt::format("fault {}: there is none", *id));
  rack.pulse();
  return json{{"cleared", count}};
}

Result<json> list_partitions(Rack& rack, const json& request) {
  IMEX_TRY(RackEntry* const entry, named_rack(rack, request));
  MutexLock lock(entry->host->mutex);
  entry->host->domain.advance(os::now());
  json found = json::array();
  for (const Partition* partition : entry->host->domain.partitions()) {
    json one = partition_to_json(*partition);
    one["health"] = static_cast<unsigned>(entry->host->domain.partition_health(*partition));
    found.push_back(std::move(one));
  }
  return json{{"partitions", std::move(found)}};
}

Result<json> show_nvml(Rack& rack, const json& request) {
  IMEX_TRY(RackEntry* const entry, named_rack(rack, request));
  IMEX_TRY(const auto tray, json_number(request, "tray", UINT32_MAX));
  MutexLock lock(entry->host->mutex);
  const Domain& domain = entry->host->domain;
  if (!tray || *tray >= domain.shape().tray_count()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("tray: want 0 to {}", domain.shape().tray_count() - 1));
  }
  const TrayPlace place = domain.shape().compute_tray(static_cast<unsigned>(*tray));
  json gpus = json::array();
  for (const NvmlGpu& gpu : domain.nvml(static_cast<unsigned>(*tray))) {
    gpus.push_back({{"index", gpu.nvml_index},
                    {"module", gpu.module},
                    {"uid", gpu.uid},
                    {"state", static_cast<unsigned>(gpu.state)},
                    {"cluster_uuid", gpu.cluster ? json(gpu.cluster->to_string()) : json(nullptr)},
                    {"clique_id", gpu.clique},
                    {"health_mask", gpu.health_mask},
                    {"health_summary", gpu.health_summary},
                    {"attached", gpu.attached}});
  }
  return json{{"chassis_serial", domain.chassis_serial(place.chassis)},
              {"slot", place.location.slot},
              {"tray_index", place.index},
              {"host_id", place.location.host},
              {"gpus", std::move(gpus)}};
}

Result<json> reset_gpu(Rack& rack, const json& request) {
  IMEX_TRY(RackEntry* const entry, named_rack(rack, request));
  IMEX_TRY(const auto tray, json_number(request, "tray", UINT32_MAX));
  IMEX_TRY(const auto module, json_number(request, "gpu", UINT32_MAX));
  MutexLock lock(entry->host->mutex);
  Domain& domain = entry->host->domain;
  if (!tray || *tray >= domain.shape().tray_count()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("tray: want 0 to {}", domain.shape().tray_count() - 1));
  }
  if (module && (*module == 0 || *module > domain.shape().gpus_per_tray)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("gpu: want a module from 1 to {}", domain.shape().gpus_per_tray));
  }
  domain.advance(os::now());
  domain.reset_gpu(static_cast<unsigned>(*tray), static_cast<std::uint32_t>(module.value_or(0)));
  entry->host->settle(nullptr, {});
  return json::object();
}

Result<json> forget(Rack& rack, const json& /*request*/) {
  for (RackEntry& entry : rack.entries()) {
    MutexLock lock(entry.host->mutex);
    entry.host->forget();
  }
  return json::object();
}

Result<json> list_kinds(Rack& /*rack*/, const json& /*request*/) {
  json found = json::array();
  for (const FaultFacts& facts : all_faults()) {
    static constexpr std::array kShapes = {"state", "event", "call"};
    found.push_back({{"kind", facts.name},
                     {"shape", kShapes.at(static_cast<std::size_t>(facts.shape))},
                     {"of", facts.manager ? "manager" : "domain"}});
  }
  return json{{"kinds", std::move(found)}};
}

struct Operation {
  std::string_view name;
  Result<json> (*run)(Rack&, const json&);
};
constexpr std::array kOperations = {
    Operation{"status", [](Rack& rack, const json&) -> Result<json> { return status(rack); }},
    Operation{"faults", list_faults},
    Operation{"fault-kinds", list_kinds},
    Operation{"fault-set", set_fault},
    Operation{"fault-clear", clear_faults},
    Operation{"partitions", list_partitions},
    Operation{"nvml", show_nvml},
    Operation{"gpu-reset", reset_gpu},
    Operation{"forget", forget},
};

Result<json> run(Rack& rack, std::string_view text) try {
  const json request = json::parse(text);
  if (!request.is_object()) return fail(Errc::kInvalidArgument, "want a JSON object");
  IMEX_TRY(const std::string op, json_text(request, "op"));
  std::string known;
  for (const Operation& operation : kOperations) {
    if (operation.name == op) return operation.run(rack, request);
    known.append(known.empty() ? "" : ", ").append(operation.name);
  }
  return fail(Errc::kInvalidArgument, fmt::format("op '{}': there are {}", op, known));
} catch (const json::exception& error) {
  return fail(Errc::kInvalidArgument, fmt::format("not a request: {}", error.what()));
}

}  // namespace

std::string answer_control(Rack& rack, std::string_view request) {
  Result<json> result = run(rack, request);
  json answer = {{"ok", result.has_value()}};
  if (result) {
    answer.update(*result);
  } else {
    answer["error"] = {{"code", errc_name(result.error().code)},
                       {"message", result.error().message}};
    if (!result.error().hint.empty()) answer["error"]["hint"] = result.error().hint;
  }
  return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string status_line(Rack& rack, std::uint16_t manager_port) {
  json line = {{"ready", true}};
  if (manager_port != 0) line["manager_port"] = manager_port;
  line.update(status(rack));
  return line.dump();
}

}  // namespace imex::rack
