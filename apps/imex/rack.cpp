// imex rack: the simulated rack through the control socket of imex-rack.

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "controller_access.hpp"
#include "json/json.hpp"
#include "rack_commands.hpp"

namespace imex::cli {
namespace {

using Value = nlohmann::json;

std::string variable_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<rack::ControlClient> connect_rack(const Global& global, const RackOptions& options) {
  IMEX_TRY(const std::string path, locate_rack(options.control, variable_text("IMEX_RACK_CONTROL"),
                                               stack_file_of(global.state_dir)));
  auto client = rack::ControlClient::connect(path, global.timeout);
  if (!client) {
    Error error = std::move(client).error().context(fmt::format("the rack at {}", path));
    if (error.hint.empty()) error.hint = "is imex-rack running, with --control?";
    return fail(std::move(error));
  }
  return client;
}

/// One request; the array at `key` of its answer, of objects.
Result<std::vector<Value>> ask_list(rack::ControlClient& client, const Value& request,
                                    const char* key) {
  IMEX_TRY(const std::string answer, client.call(json::text_of(request)));
  IMEX_TRY(const Value json, json::parse(answer, "answer of the rack", {.bytes_max = 64U << 20U}));
  const Value* const list = json::find(json, key);
  if (list == nullptr || !list->is_array()) {
    return fail(Errc::kDataLoss, fmt::format("answer of the rack: no list '{}'", key));
  }
  std::vector<Value> all;
  for (const Value& each : *list) {
    if (!each.is_object())
      return fail(Errc::kDataLoss, fmt::format("answer of the rack: '{}' holds no objects", key));
    all.push_back(each);
  }
  return all;
}

/// Text of a value for a table; nothing for null and absent.
std::string cell(const Value& object, const char* key) {
  const Value* const value = json::find(object, key);
  if (value == nullptr) return {};
  return value->is_string() ? value->get<std::string>() : json::text_of(*value);
}

std::uint64_t number(const Value& object, const char* key) {
  const Value* const value = json::find(object, key);
  return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
}

std::string_view word(std::uint64_t number, std::initializer_list<std::string_view> words) {
  return number < words.size() ? words.begin()[number] : "?";
}
// The numbers of the NMX-C protocol.
std::string_view control_plane_word(std::uint64_t number) {
  return word(number, {"unknown", "offline", "standby", "configured", "timeout", "error",
                       "unconfigured", "degraded"});
}
std::string_view controller_health_word(std::uint64_t number) {
  return word(number, {"unknown", "healthy", "degraded", "unhealthy", "corrupt"});
}
std::string_view partition_health_word(std::uint64_t number) {
  return word(number, {"unknown", "healthy", "degraded_bandwidth", "degraded", "unhealthy"});
}
std::string_view nvml_state_word(std::uint64_t number) {
  return word(number, {"not_supported", "not_started", "in_progress", "completed"});
}
std::string_view nvml_health_word(std::uint64_t number) {
  return word(number, {"unknown", "healthy", "unhealthy", "limited"});
}

struct DomainDetails {
  std::vector<Value> trays, partitions;
};

/// Which partition a GPU is in, by its uid.
using PartitionByUid = std::map<std::uint64_t, std::uint64_t>;

PartitionByUid partition_by_uid(const std::vector<Value>& partitions) {
  PartitionByUid by_uid;
  for (const Value& partition : partitions) {
    const Value* const members = json::find(partition, "members");
    if (members == nullptr || !members->is_array()) continue;
    for (const Value& member : *members) by_uid[number(member, "uid")] = number(partition, "id");
  }
  return by_uid;
}

Result<DomainDetails> details_of(rack::ControlClient& client, const Value& domain) {
  DomainDetails details;
  const std::string name = cell(domain, "name");
  IMEX_TRY(details.partitions,
           ask_list(client, {{"op", "partitions"}, {"domain", name}}, "partitions"));
  for (std::uint64_t tray = 0; tray != number(domain, "trays"); ++tray) {
    IMEX_TRY(const std::string answer,
             client.call(json::text_of(Value{{"op", "nvml"}, {"domain", name}, {"tray", tray}})));
    IMEX_TRY(Value json, json::parse(answer, "answer of the rack"));
    if (!json.is_object()) return fail(Errc::kDataLoss, "answer of the rack: no object");
    json.erase("ok");
    json["tray"] = tray;
    details.trays.push_back(std::move(json));
  }
  return details;
}

Json domain_json(const Value& domain) {
  Json json{{"name", cell(domain, "name")}};
  for (const auto& [key, value] : domain.items()) {
    if (key != "name") json[key] = value;
  }
  json["control_plane"] = control_plane_word(number(domain, "control_plane"));
  json["controller_health"] = controller_health_word(number(domain, "controller_health"));
  return json;
}

Json gpu_json(const Value& gpu, const PartitionByUid& partitions) {
  const auto at = partitions.find(number(gpu, "uid"));
  return {{"index", number(gpu, "index")},
          {"module", number(gpu, "module")},
          // As text: programs that read numbers as doubles would round it.
          {"uid", std::to_string(number(gpu, "uid"))},
          {"partition", at == partitions.end() ? Json(nullptr) : Json(at->second)},
          {"state", nvml_state_word(number(gpu, "state"))},
          {"cluster_uuid", gpu.value("cluster_uuid", Value())},
          {"clique_id", number(gpu, "clique_id")},
          {"attached", gpu.value("attached", Value())},
          {"health", nvml_health_word(number(gpu, "health_summary"))}};
}

std::vector<Value> gpus_of(const Value& tray) {
  const Value* const gpus = json::find(tray, "gpus");
  if (gpus == nullptr || !gpus->is_array()) return {};
  return gpus->get<std::vector<Value>>();
}

Json details_json(const Value& domain, const DomainDetails& details) {
  Json json = domain_json(domain);
  const PartitionByUid by_uid = partition_by_uid(details.partitions);
  json["partition_list"] = Json::array();
  for (const Value& each : details.partitions) {
    Json partition = each;
    partition["health"] = partition_health_word(number(each, "health"));
    if (partition.contains("members") && partition["members"].is_array()) {
      for (Json& member : partition["members"])
        if (member.contains("uid")) member["uid"] = member["uid"].dump();
    }
    json["partition_list"].push_back(std::move(partition));
  }
  json["tray_list"] = Json::array();
  for (const Value& each : details.trays) {
    Json tray = each;
    tray["gpus"] = Json::array();
    for (const Value& gpu : gpus_of(each)) tray["gpus"].push_back(gpu_json(gpu, by_uid));
    json["tray_list"].push_back(std::move(tray));
  }
  return json;
}

std::string details_text(const Value& domain, const DomainDetails& details) {
  std::string text = fmt::format(
      "{}: NVLink domain {}, {} at {}:{}\ncontrol plane {}, controller {}, {} multicast groups "
      "left, {} faults\n\n",
      printable(cell(domain, "name")), printable(cell(domain, "domain_uuid")),
      printable(cell(domain, "topology")), printable(cell(domain, "address")),
      number(domain, "port"), control_plane_word(number(domain, "control_plane")),
      controller_health_word(number(domain, "controller_health")), number(domain, "groups_left"),
      number(domain, "faults"));
  Table partitions({"PARTITION", "NAME", "GPUS", "HEALTH", "GROUPS"});
  for (const Value& each : details.partitions) {
    const Value* const members = json::find(each, "members");
    partitions.add({cell(each, "id"), cell(each, "name"),
                    fmt::format("{}", members == nullptr ? 0 : members->size()),
                    std::string(partition_health_word(number(each, "health"))),
                    cell(each, "groups")});
  }
  text += partitions.empty() ? "no partitions\n" : partitions.render();

  // One GPU a column: what people look for is the odd one out.
  const PartitionByUid by_uid = partition_by_uid(details.partitions);
  std::size_t width = 0;
  for (const Value& tray : details.trays) width = std::max(width, gpus_of(tray).size());
  std::vector<std::string> header{"TRAY", "SLOT", "CHASSIS"};
  for (std::size_t i = 0; i != width; ++i) header.push_back(fmt::format("GPU {}", i));
  Table trays(std::move(header));
  for (const Value& tray : details.trays) {
    std::vector<std::string> row{cell(tray, "tray"), cell(tray, "slot"),
                                 cell(tray, "chassis_serial")};
    for (const Value& gpu : gpus_of(tray)) {
      const auto at = by_uid.find(number(gpu, "uid"));
      std::string words = at == by_uid.end() ? "-" : fmt::format("{}", at->second);
      if (number(gpu, "health_summary") != 1)
        words += fmt::format(" {}", nvml_health_word(number(gpu, "health_summary")));
      // The driver takes up a changed partition only with a reset.
      if (at != by_uid.end() && number(gpu, "clique_id") != at->second) words += " reset pending";
      row.push_back(std::move(words));
    }
    trays.add(std::move(row));
  }
  return text + "\nGPUs by index of NVML, each with its partition\n" + trays.render();
}

Result<void> show_all(const Global& global, const std::vector<Value>& domains) {
  Table table({"DOMAIN", "UUID", "TRAYS", "GPUS", "PARTITIONS", "CONTROL PLANE", "CONTROLLER",
               "FAULTS", "NMX-C"});
  std::vector<Json> rows;
  for (const Value& each : domains) {
    table.add(
        {cell(each, "name"), cell(each, "domain_uuid"), cell(each, "trays"), cell(each, "gpus"),
         cell(each, "partitions"), std::string(control_plane_word(number(each, "control_plane"))),
         std::string(controller_health_word(number(each, "controller_health"))),
         cell(each, "faults"), fmt::format("{}:{}", cell(each, "address"), number(each, "port"))});
    rows.push_back(domain_json(each));
  }
  return print(render_list(global.format, "domains", rows, table));
}

bool is_named(const Value& domain, const std::string& name) {
  return cell(domain, "name") == name || cell(domain, "domain_uuid") == name;
}

/// The rack's own name of the domain that was meant; empty if none was.
Result<std::string> domain_name(rack::ControlClient& client, const std::string& given) {
  if (given.empty()) return given;
  IMEX_TRY(const auto domains, ask_list(client, {{"op", "status"}}, "racks"));
  std::vector<std::string> names;
  for (const Value& each : domains) {
    if (is_named(each, given)) return cell(each, "name");
    if (names.size() < 10) names.push_back(cell(each, "name"));
  }
  return fail(Errc::kNotFound, fmt::format("no domain '{}'", printable(given)),
              fmt::format("there are {}", fmt::join(names, ", ")));
}

Result<std::optional<std::uint64_t>> milliseconds(const std::string& text,
                                                  std::string_view option) {
  if (text.empty()) return std::optional<std::uint64_t>();
  const auto time = parse_duration(text);
  if (!time || *time < Nanos::zero()) {
    return fail(Errc::kInvalidArgument, fmt::format("{} '{}' is no time", option, text),
                "for example 250ms, 5s, 2m");
  }
  return std::optional(
      static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(*time).count()));
}

/// "tray 3, GPU 2, link 7": what a fault is confined to.
std::string scope_text(const Value& fault) {
  static constexpr std::pair<const char*, std::string_view> kParts[] = {
      {"tray", "tray"},           {"gpu", "GPU"},
      {"link", "link"},           {"switch_tray", "switch tray"},
      {"chip", "chip"},           {"trunk", "trunk"},
      {"partition", "partition"}, {"method", "calls"}};
  std::string text;
  for (const auto& [key, name] : kParts) {
    if (const std::string value = cell(fault, key); !value.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  }
  return text.empty() ? "all" : text;
}

std::string time_text(const Value& fault, const char* key) {
  return json::find(fault, key) == nullptr
             ? std::string()
             : format_duration(std::chrono::milliseconds(number(fault, key)));
}

Result<void> list_kinds(const Global& global, rack::ControlClient& client) {
  IMEX_TRY(const auto kinds, ask_list(client, {{"op", "fault-kinds"}}, "kinds"));
  Table table({"KIND", "OF", "SHAPE"});
  std::vector<Json> rows;
  for (const Value& each : kinds) {
    table.add({cell(each, "kind"), cell(each, "of"), cell(each, "shape")});
    rows.push_back(Json(each));
  }
  return print(render_list(global.format, "kinds", rows, table));
}

}  // namespace

Result<void> rack_show(const Global& global, const RackOptions& options) {
  IMEX_TRY(auto client, connect_rack(global, options));
  IMEX_TRY(const auto domains, ask_list(client, {{"op", "status"}}, "racks"));
  if (options.domain.empty() && domains.size() != 1) return show_all(global, domains);
  IMEX_TRY(const std::string name, domain_name(client, options.domain));
  for (const Value& each : domains) {
    if (!name.empty() && cell(each, "name") != name) continue;
    IMEX_TRY(const DomainDetails details, details_of(client, each));
    if (global.format == Format::kTable) return print(details_text(each, details));
    return print(details_json(each, details)
                     .dump(global.format == Format::kJson ? 2 : -1, ' ', false,
                           Json::error_handler_t::replace));
  }
  return fail(Errc::kNotFound, fmt::format("domain '{}' went away", printable(name)));
}

Result<void> rack_fault_add(const Global& global, const RackFaultOptions& options) {
  rack::FaultRequest fault = options.fault;
  IMEX_TRY(fault.for_ms, milliseconds(options.duration, "--duration"));
  IMEX_TRY(fault.after_ms, milliseconds(options.after, "--after"));
  IMEX_TRY(fault.delay_ms, milliseconds(options.delay, "--delay"));
  IMEX_TRY(auto client, connect_rack(global, options));
  IMEX_TRY(fault.domain, domain_name(client, options.domain));
  IMEX_TRY(const std::uint64_t id, client.set_fault(fault));
  if (global.format != Format::kTable)
    return print(Json{{"id", id}, {"kind", fault.kind}, {"domain", fault.domain}}.dump());
  return print(fmt::format("fault {}: {}; end it with 'imex rack fault clear {}'\n", id,
                           printable(fault.kind), id));
}

Result<void> rack_fault_list(const Global& global, const RackFaultOptions& options) {
  IMEX_TRY(auto client, connect_rack(global, options));
  if (options.kinds) return list_kinds(global, client);
  IMEX_TRY(const std::string domain, domain_name(client, options.domain));
  IMEX_TRY(const auto faults, ask_list(client, {{"op", "faults"}}, "faults"));
  Table table({"ID", "DOMAIN", "KIND", "SCOPE", "COUNT", "BEGINS IN", "ENDS IN"});
  std::vector<Json> rows;
  for (const Value& each : faults) {
    if (!domain.empty() && cell(each, "domain") != domain) continue;
    table.add({cell(each, "id"), cell(each, "domain"), cell(each, "kind"), scope_text(each),
               cell(each, "count"), time_text(each, "after_ms"), time_text(each, "for_ms")});
    rows.push_back(Json(each));
  }
  return print(render_list(global.format, "faults", rows, table));
}

Result<void> rack_fault_clear(const Global& global, const RackFaultOptions& options) {
  if (options.what.empty() && !options.all) {
    return fail(Errc::kInvalidArgument, "which fault?",
                "give the number that 'imex rack fault list' shows, a kind, or --all");
  }
  IMEX_TRY(auto client, connect_rack(global, options));
  IMEX_TRY(const std::string domain, domain_name(client, options.domain));
  std::uint64_t cleared = 0;
  if (const auto id = parse_integer(options.what, 0, INT64_MAX)) {
    IMEX_CHECK_OK(client.clear_fault(domain, static_cast<std::uint64_t>(*id)));
    cleared = 1;
  } else {
    IMEX_TRY(cleared, client.clear_faults(domain, options.what));
  }
  if (global.format != Format::kTable) return print(Json{{"cleared", cleared}}.dump());
  return print(fmt::format("{} cleared\n", cleared));
}

}  // namespace imex::cli
