#include "nmxm_manager.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "json/json.hpp"

namespace imex::rack {

namespace {

constexpr std::string_view kPrefix = "/nmx/v1/";
constexpr std::array kInventory = {"chassis",      "compute-nodes", "gpus",
                                   "switch-nodes", "switches",      "ports"};

std::string base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t block = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      block = block << 8U | (i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0U);
    }
    for (unsigned j = 0; j < 4; ++j)
      out += i + j > text.size() ? '=' : kDigits[block >> (18 - 6 * j) & 63U];
  }
  return out;
}

/// Takes the same time whatever differs.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^
                                        static_cast<unsigned char>(i < b.size() ? b[i] : 0));
  }
  return difference == 0;
}

NmxmResponse gateway_says(unsigned status, std::string_view message) {
  NmxmResponse response = nmxm_json(status, {{"message", message}});
  response.ask_credentials = status == 401;
  return response;
}

NmxmResponse html(unsigned status) {
  return {.status = status,
          .body = fmt::format(
              "<html><head><title>{0}</title></head><body><h1>{0} Bad Gateway</h1></body></html>\n",
              status),
          .content_type = "text/html"};
}

std::optional<std::string> parameter(const NmxmRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::set<std::string> domains_of(const NmxmRequest& request) {
  std::set<std::string> found;
  for (const auto& [key, value] : request.query) {
    if (key == "domain") found.insert(value);
  }
  return found;
}

/// Cuts a list to the page asked for. False: offset or limit is no number within bounds.
bool cut_page(const NmxmRequest& request, nlohmann::json& list) {
  std::uint64_t offset = 0, limit = UINT64_MAX;
  for (const auto& [name, value, min] :
       {std::tuple("offset", &offset, 0U), std::tuple("limit", &limit, 1U)}) {
    const auto text = parameter(request, name);
    if (!text) continue;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
    if (error != std::errc() || end != text->data() + text->size() || *value < min) return false;
  }
  nlohmann::json page = nlohmann::json::array();
  for (std::uint64_t i = offset; i < list.size() && page.size() < limit; ++i)
    page.push_back(std::move(list[i]));
  list = std::move(page);
  return true;
}

bool printable_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

NmxmResponse nmxm_json(unsigned status, const nlohmann::json& body) {
  return {.status = status, .body = imex::json::text_of(body)};
}

NmxmResponse nmxm_error(unsigned status, std::string_view description) {
  std::string_view code = "internal-error";
  if (status == 400) code = "invalid-request";
  if (status == 404) code = "not-found";
  if (status == 405) code = "method-not-allowed";
  if (status == 409) code = "conflict";
  if (status == 503) code = "service-unavailable";
  return nmxm_json(
      status, {{"httpErrorCode", status}, {"customErrorCode", code}, {"description", description}});
}

Result<nlohmann::json> nmxm_body(const std::string& body, const std::set<std::string>& keys) {
  IMEX_TRY(nlohmann::json parsed, imex::json::parse(body, "body"));
  if (!parsed.is_object()) return fail(Errc::kInvalidArgument, "body: want an object");
  for (const auto& [key, value] : parsed.items()) {
    if (!keys.contains(key))
      return fail(Errc::kInvalidArgument, fmt::format("body: unknown key '{}'", key));
  }
  return parsed;
}

NmxmManager::NmxmManager(NmxmOptions options, std::vector<Controller> controllers)
    : options_(std::move(options)),
      ro_credentials_("Basic " + base64("ro-user:" + options_.ro_password)),
      rw_credentials_("Basic " + base64("rw-user:" + options_.rw_password)) {
  const std::string since = rfc3339(std::chrono::system_clock::now());
  MutexLock lock(mutex_);
  for (Controller& controller : controllers) {
    Entry entry{.controller = std::move(controller),
                .copy = {},
                .taken = {},
                .registered = true,
                .registration = 1,
                .since = since};
    entry.copy = copy_domain(*entry.controller.host, Time{0});
    const auto index = static_cast<unsigned>(entries_.size());
    services_.push_back({.id = next_id(Entity::kService),
                         .type = "CONTROLLER",
                         .name = entry.copy.name,
                         .description = "",
                         .address = entry.controller.address,
                         .status = "UP",
                         .port = entry.controller.port,
                         .domain = index,
                         .ours = true,
                         .since = since});
    entries_.push_back(std::move(entry));
  }
}

std::string NmxmManager::next_id(Entity kind) { return entity_id(kind, self_, 0, ++ids_given_); }

bool NmxmManager::lost(unsigned domain) {
  const Fault* fault = faults_.holds(FaultKind::kControllerLost);
  if (fault != nullptr && fault->number.value_or(domain) == domain) return true;
  DomainHost& host = *entries_[domain].controller.host;
  MutexLock lock(host.mutex);
  return host.domain.faults().holds(FaultKind::kUnreachable) != nullptr;
}

/// Takes a new copy of a domain unless the former is young enough, or the controller is lost.
void NmxmManager::refresh(Entry& entry, Time now) {
  if (now - entry.taken < options_.lag && entry.taken.ns != 0) return;
  if (lost(static_cast<unsigned>(&entry - entries_.data()))) return;
  DomainCopy fresh = copy_domain(*entry.controller.host, now);
  if (faults_.holds(FaultKind::kStaleInventory) != nullptr) fresh.gpus = std::move(entry.copy.gpus);
  entry.copy = std::move(fresh);
  entry.taken = now;
}

void NmxmManager::advance(Time now, Moment wall) {
  for (const Fault& event : faults_.advance(now, random_)) {
    if (event.kind != FaultKind::kIdsChange) continue;
    for (unsigned i = 0; i < entries_.size(); ++i) {
      if (!event.number || *event.number == i) ++entries_[i].registration;
    }
    std::erase_if(known_, [&](const auto& known) {
      return !event.number || known.first.first == *event.number;
    });
  }
  for (Operation& operation : operations_) step(operation, now, wall);
  std::erase_if(hidden_, [now](const auto& entry) { return entry.second <= now; });
}

Time NmxmManager::pulse(Time now, Moment wall) {
  MutexLock lock(mutex_);
  advance(now, wall);
  Time next = faults_.next_change();
  for (const Operation& operation : operations_) {
    if (operation.status == "pending") next = std::min(next, operation.begins);
    if (operation.status == "in-progress") next = std::min(next, operation.ends);
  }
  for (const auto& [key, until] : hidden_) next = std::min(next, until);
  return next;
}

Result<std::uint64_t> NmxmManager::inject(Fault fault, Time now) {
  MutexLock lock(mutex_);
  if (!facts_of(fault.kind).manager) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}: a fault of a domain: say which", facts_of(fault.kind).name));
  }
  IMEX_TRY(const std::uint64_t id, faults_.add(std::move(fault)));
  advance(now, std::chrono::system_clock::now());
  return id;
}

std::size_t NmxmManager::clear_faults(std::optional<std::uint64_t> id,
                                      std::optional<FaultKind> kind) {
  MutexLock lock(mutex_);
  if (id) return faults_.remove(*id) ? 1 : 0;
  if (!kind || *kind == FaultKind::kOpLiesDone) hidden_.clear();
  return kind ? faults_.remove_if_kind(*kind) : faults_.remove_all();
}

std::vector<Fault> NmxmManager::faults() {
  MutexLock lock(mutex_);
  std::vector<Fault> found;
  for (const auto& [id, fault] : faults_.all()) found.push_back(fault);
  return found;
}

NmxmResponse NmxmManager::answer(const NmxmRequest& request, Time now, Moment wall) {
  MutexLock lock(mutex_);
  advance(now, wall);
  const std::string call = request.method + " " + request.path;
  if (faults_.befalls(FaultKind::kAuthExpired, {call, 0}, now, random_))
    return gateway_says(401, "token expired");
  if (const auto fault = faults_.befalls(FaultKind::kGatewayError, {call, 0}, now, random_)) {
    return html(fault->number.value_or(502));
  }
  const bool may_write = equal_secrets(rw_credentials_, request.authorization);
  if (!may_write && !equal_secrets(ro_credentials_, request.authorization))
    return gateway_says(401, "Unauthorized");
  if (!may_write && request.method != "GET" && request.method != "HEAD")
    return gateway_says(403, "Forbidden");
  for (Entry& entry : entries_) refresh(entry, now);
  NmxmResponse response = route(request, now, wall);
  if (response.status == 202 && faults_.befalls(FaultKind::kDoublePost, {call, 0}, now, random_))
    return html(502);
  return response;
}

NmxmResponse NmxmManager::route(const NmxmRequest& request, Time now, Moment wall) {
  if (!request.path.starts_with(kPrefix)) return nmxm_error(404, "no such path");
  const std::string rest = request.path.substr(kPrefix.size());
  const auto slash = rest.find('/');
  const std::string collection = rest.substr(0, slash);
  const std::string id = slash == std::string::npos ? "" : rest.substr(slash + 1);
  if (id.find('/') != std::string::npos || (slash != std::string::npos && id.empty()))
    return nmxm_error(404, "no such path");
  if (collection == "partitions") return partitions(request, id, now, wall);
  if (collection == "operations") return operations(request, id, now, wall);
  if (collection == "services") return services(request, id, wall);
  if (collection == "kpis" && id.empty()) return kpis(request);
  if (collection == "metrics" && id.empty()) {
    const auto domain = parameter(request, "id");
    if (!domain) return nmxm_error(400, "id: missing");
    for (const Entry& entry : entries_) {
      if (entry.registered && entry.copy.uuid.to_string() == *domain) {
        return {.status = 200,
                .body = metrics_text(entry.copy),
                .content_type = "text/plain; version=0.0.4"};
      }
    }
    return nmxm_error(404, "no such domain");
  }
  if (std::ranges::find(kInventory, collection) == kInventory.end())
    return nmxm_error(404, "no such path");
  return inventory(request, collection, id, wall);
}

nlohmann::json NmxmManager::objects(const std::string& collection,
                                    const std::set<std::string>& domains) {
  nlohmann::json found = nlohmann::json::array();
  for (const Entry& entry : entries_) {
    if (!entry.registered || (!domains.empty() && !domains.contains(entry.copy.uuid.to_string())))
      continue;
    list_objects(collection, {entry.copy, entry.registration, entry.since, options_.interop},
                 found);
  }
  for (nlohmann::json& object : found) {
    const auto note = annotations_.find(object["ID"].get<std::string>());
    if (note == annotations_.end()) continue;
    if (!note->second.first.empty()) object["Name"] = note->second.first;
    if (!note->second.second.empty()) object["Description"] = note->second.second;
  }
  return found;
}

NmxmResponse NmxmManager::inventory(const NmxmRequest& request, const std::string& collection,
                                    const std::string& id, Moment wall) {
  if (request.method != "GET" && (request.method != "PUT" || id.empty() || collection == "ports")) {
    return nmxm_error(405, "method not allowed here");
  }
  nlohmann::json list = objects(collection, domains_of(request));
  if (id == "count") return nmxm_json(200, {{"total", list.size()}});
  if (id.empty())
    return cut_page(request, list) ? nmxm_json(200, list)
                                   : nmxm_error(400, "offset, limit: want numbers");
  for (nlohmann::json& object : list) {
    if (object["ID"] != id) continue;
    if (request.method == "PUT") return annotate(request, std::move(object), wall);
    return nmxm_json(200, options_.interop ? nlohmann::json::array({object}) : object);
  }
  return nmxm_error(404, fmt::format("{}: no '{}'", collection, id));
}

NmxmResponse NmxmManager::annotate(const NmxmRequest& request, nlohmann::json object, Moment wall) {
  constexpr std::size_t kNameMax = 64, kDescriptionMax = 2000;
  const auto body = nmxm_body(request.body, {"Name", "Description"});
  if (!body) return nmxm_error(400, body.error().message);
  const auto name = imex::json::optional_string(*body, "Name");
  const auto description = imex::json::optional_string(*body, "Description");
  if (!name || !description || (!*name && !*description))
    return nmxm_error(400, "want Name or Description");
  if (*name && ((*name)->empty() || (*name)->size() > kNameMax || !printable_ascii(**name)))
    return nmxm_error(400, "Name: want 1 to 64 printable characters");
  if (*description && ((*description)->size() > kDescriptionMax || !printable_ascii(**description)))
    return nmxm_error(400, "Description: want up to 2000 printable characters");
  auto& note = annotations_[object["ID"].get<std::string>()];
  if (*name) object["Name"] = note.first = **name;
  if (*description) object["Description"] = note.second = **description;
  object["UpdatedAt"] = rfc3339(wall);
  return nmxm_json(200, object);
}

nlohmann::json NmxmManager::service_object(const Service& service) {
  nlohmann::json object = {{"ID", service.id},
                           {"Name", service.name},
                           {"Description", service.description},
                           {"ServiceType", service.type},
                           {"Address", service.address},
                           {"PortNumber", service.port},
                           {"Status", service.status},
                           {"StatusInfo", ""},
                           {"RegisteredAt", service.since}};
  if (!service.ours) return object;
  const Entry& entry = entries_[service.domain];
  object["ClusterDomainUUID"] = entry.copy.uuid.to_string();
  object["ApplicationUUID"] = entry.copy.instance.to_string();
  object["Version"] = entry.copy.version;
  object["UpSince"] = service.since;
  if (lost(service.domain)) object["Status"] = "UNREACHABLE";
  return object;
}

NmxmResponse NmxmManager::services(const NmxmRequest& request, const std::string& id, Moment wall) {
  if (request.method == "POST" && id.empty()) return add_service(request, wall);
  if (request.method == "GET" && id.empty()) {
    nlohmann::json list = nlohmann::json::array();
    for (const Service& service : services_) {
      const auto type = parameter(request, "type"), address = parameter(request, "address");
      if ((type && *type != service.type) || (address && *address != service.address)) continue;
      list.push_back(service_object(service));
    }
    return cut_page(request, list) ? nmxm_json(200, list)
                                   : nmxm_error(400, "offset, limit: want numbers");
  }
  const auto found = std::ranges::find(services_, id, &Service::id);
  if (id.empty() || (request.method != "GET" && request.method != "DELETE"))
    return nmxm_error(405, "method not allowed here");
  if (found == services_.end()) return nmxm_error(404, "no such service");
  nlohmann::json object = service_object(*found);
  if (request.method == "GET") return nmxm_json(200, object);
  object["Status"] = "REMOVED";
  if (found->ours) {
    entries_[found->domain].registered = false;
    std::erase_if(known_, [&](const auto& known) { return known.first.first == found->domain; });
  }
  services_.erase(found);
  return nmxm_json(202, object);
}

NmxmResponse NmxmManager::add_service(const NmxmRequest& request, Moment wall) {
  constexpr std::size_t kServicesMax = 4096;
  const auto body = nmxm_body(
      request.body, {"Name", "Description", "ServiceType", "ServiceConnectionInformation"});
  if (!body) return nmxm_error(400, body.error().message);
  const auto name = imex::json::required_string(*body, "Name"),
             type = imex::json::required_string(*body, "ServiceType");
  const auto description = imex::json::optional_string(*body, "Description");
  const nlohmann::json* where = imex::json::find(*body, "ServiceConnectionInformation");
  if (!name || name->empty() || name->size() > 64 || !description)
    return nmxm_error(400, "Name: want 1 to 64 characters");
  if (!type || (*type != "TELEMETRY" && *type != "CONTROLLER"))
    return nmxm_error(400, "ServiceType: want TELEMETRY or CONTROLLER");
  if (where == nullptr) return nmxm_error(400, "ServiceConnectionInformation: missing");
  const auto address = imex::json::required_string(*where, "Address");
  const auto port = imex::json::required_u64(*where, "PortNumber");
  if (!address || !port || *port > 65535)
    return nmxm_error(400, "ServiceConnectionInformation: want Address and PortNumber");
  for (const Service& service : services_) {
    if (service.address == *address && service.port == *port)
      return nmxm_error(409, "that address is registered");
  }
  if (services_.size() >= kServicesMax) return nmxm_error(500, "too many services");
  Service service{.id = next_id(Entity::kService),
                  .type = *type,
                  .name = *name,
                  .description = description->value_or(""),
                  .address = *address,
                  .status = *type == "TELEMETRY" ? "UP" : "UNREACHABLE",
                  .port = static_cast<std::uint16_t>(*port),
                  .domain = 0,
                  .ours = false,
                  .since = rfc3339(wall)};
  for (unsigned i = 0; i < entries_.size() && *type == "CONTROLLER"; ++i) {
    Entry& entry = entries_[i];
    if (entry.controller.address != *address || entry.controller.port != *port) continue;
    service.ours = true;
    service.domain = i;
    service.status = "UP";
    entry.registered = true;
    ++entry.registration;  // another registration, other entity ids
    entry.since = service.since;
  }
  services_.push_back(service);
  nlohmann::json object = service_object(service);
  object["Status"] = "IN_PROGRESS";
  return nmxm_json(202, object);
}

NmxmResponse NmxmManager::kpis(const NmxmRequest& request) {
  std::vector<const DomainCopy*> domains;
  for (const Entry& entry : entries_) {
    if (entry.registered) domains.push_back(&entry.copy);
  }
  const nlohmann::json all = metrics_and_kpis(domains);
  const std::string filter = parameter(request, "filter").value_or("");
  if (filter.empty()) return nmxm_json(200, all);
  if (filter == "HEALTH") return nmxm_json(200, {{"Health", all["Health"]}});
  if (filter == "INVENTORY") return nmxm_json(200, {{"Inventory", all["Inventory"]}});
  if (filter == "SWITCH_HEALTH") return nmxm_json(200, all["Health"]["switch-health"]);
  if (filter == "GPU_HEALTH") return nmxm_json(200, all["Health"]["gpu-health"]);
  if (filter == "DOMAIN_HEALTH") return nmxm_json(200, all["Health"]["domain-health"]);
  if (filter == "COMPUTE_HEALTH") return nmxm_json(200, all["Health"]["compute-health"]);
  if (filter == "COMPUTE_ALLOCATION") return nmxm_json(200, all["Inventory"]["compute-allocation"]);
  return nmxm_error(400, "filter: no such KPI");
}

}  // namespace imex::rack
