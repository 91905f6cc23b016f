// What NICo does not show (section 8): domains, physical partitions, operations, reservations,
// endpoints, health, and who changed what.
#include <algorithm>
#include <charconv>
#include <tuple>

#include <fmt/format.h>

#include "body.hpp"
#include "context.hpp"
#include "os/random.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

/// A filter that nothing matches when there are no values (an empty one would mean "is null").
Filter any_of(Field field, std::vector<std::string> values) {
  if (values.empty()) values.push_back(Uuid{}.to_string());
  return {field, std::move(values)};
}

Checked<std::vector<std::string>> sites_of(ReadTransaction& t, const Provider& provider) {
  ListQuery query;
  query.filters.push_back({Field::kProvider, {provider.id.to_string()}});
  IMEX_GET(const auto sites, t.list<Site>(query));
  std::vector<std::string> ids;
  for (const Site& site : sites) ids.push_back(site.id.to_string());
  return ids;
}

Checked<std::vector<Domain>> domains_of(ReadTransaction& t, const Caller& caller) {
  IMEX_GET(const Provider provider, own_provider(t, caller));
  IMEX_GET(auto sites, sites_of(t, provider));
  ListQuery query;
  query.filters.push_back(any_of(Field::kSite, std::move(sites)));
  IMEX_GET(auto domains, t.list<Domain>(query));
  return domains;
}

/// Limits a list to what is in the provider's domains, or else to the tenant's rows.
Checked<void> limit_to_owner(ReadTransaction& t, const Caller& caller, ListRequest& list) {
  IMEX_PASS(need_anyone(caller));
  IMEX_GET(const auto provider, t.provider_of(caller.org));
  if (is_provider(caller) && (provider || !is_tenant(caller))) {
    IMEX_GET(const auto domains, domains_of(t, caller));
    std::vector<std::string> ids;
    for (const Domain& domain : domains) ids.push_back(domain.id.to_string());
    list.query.filters.push_back(any_of(Field::kDomain, std::move(ids)));
    return {};
  }
  IMEX_GET(const Tenant tenant, own_tenant(t, caller));
  list.query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
  return {};
}

Checked<ListRequest> untitled_list(const Query& query) {
  IMEX_GET(ListRequest list, list_request(query, {{"CREATED", Field::kCreated}}));
  list.query.text.clear();
  return list;
}

bool is_fresh(const std::optional<WallTime>& observed, WallTime now, std::chrono::seconds valid) {
  return observed && now - *observed <= valid;
}

// ---- Endpoints ---------------------------------------------------------------------------------

bool is_endpoint_url(std::string_view url) {
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  const std::size_t host = url.find("://");
  return known && url.size() > host + 3 && url.find_first_of(" \t\r\n\"<>@") == std::string::npos;
}

struct EndpointBody {
  std::optional<EndpointCredentials> credentials;
};

Checked<EndpointBody> change_endpoint(Body& body, Endpoint& endpoint) {
  if (const auto protocol = body.text("protocol", 16)) {
    if (*protocol == "NMX-C")
      endpoint.protocol = FabricProtocol::kNmxC;
    else if (*protocol == "NMX-M")
      endpoint.protocol = FabricProtocol::kNmxM;
    else
      body.wrong("protocol", "must be NMX-C or NMX-M");
  }
  if (const auto url = body.text("url", 1024)) {
    if (!is_endpoint_url(*url)) body.wrong("url", "must be http://host:port or https://host:port");
    endpoint.url = *url;
  }
  endpoint.chassis_serial = body.text("chassisSerial", 256).value_or(endpoint.chassis_serial);
  endpoint.tls_authority = body.text("tlsAuthority", 256).value_or(endpoint.tls_authority);
  endpoint.verify_server = body.boolean("verifyServer").value_or(endpoint.verify_server);
  EndpointBody out;
  if (const nlohmann::json* given = body.find("credentials")) {
    IMEX_GET(Body part, Body::of(*given, "credentials"));
    EndpointCredentials& credentials = out.credentials.emplace();
    credentials.user = part.text("user", 256).value_or("");
    credentials.password = log::Secret(part.text("password", 1024).value_or(""));
    credentials.ca_certificate_path = part.text("caCertificatePath", 4096).value_or("");
    credentials.client_certificate_path = part.text("clientCertificatePath", 4096).value_or("");
    credentials.client_key_path = part.text("clientKeyPath", 4096).value_or("");
    if (credentials.client_certificate_path.empty() != credentials.client_key_path.empty())
      part.wrong("credentials", "need clientCertificatePath and clientKeyPath, or neither");
    body.merge(part);
  }
  IMEX_PASS(body.check());
  return out;
}

Checked<Endpoint> own_endpoint(ReadTransaction& t, const Request& request) {
  IMEX_GET(const auto id, path_id<Endpoint>(request, "the endpoint's id"));
  IMEX_GET(const Provider provider, own_provider(t, request.caller));
  IMEX_GET(auto endpoint, t.find<Endpoint>(id));
  if (!endpoint) return refuse(404, fmt::format("endpoint {} does not exist", id.to_string()));
  IMEX_GET(const auto site, t.find<Site>(endpoint->site));
  if (!site || site->provider != provider.id)
    return refuse(403, "the endpoint is another provider's");
  return std::move(*endpoint);
}

Checked<void> check_endpoint_url(ReadTransaction& t, const Endpoint& endpoint) {
  ListQuery query;
  query.filters.push_back({Field::kUrl, {endpoint.url}});
  IMEX_GET(const auto found, t.list<Endpoint>(query));
  for (const Endpoint& other : found)
    if (other.id != endpoint.id)
      return refuse(409, "there is an endpoint with this url already",
                    id_data(other.id.to_string()));
  return {};
}

Checked<Answer> answer_endpoint(ReadTransaction& t, int status, const EndpointId& id) {
  IMEX_GET(const auto endpoint, t.find<Endpoint>(id));
  if (!endpoint) return refuse(404, "the endpoint is gone");
  JsonWriter json;
  render_endpoint(json, *endpoint, t.now());
  return json_answer(status, std::move(json));
}

/// Seals outside of the transaction that wrote the endpoint: a second one, right after.
Answer with_credentials(Store& store, const Request& request, Answer answer, const EndpointId& id,
                        const std::optional<EndpointCredentials>& credentials) {
  const bool written = answer.status == 200 || answer.status == 201;
  if (!written || !credentials || request.query.one("dryRun") == "true") return answer;
  const Actor actor{request.caller.subject, request.caller.org};
  if (auto sealed = store.put_credentials(actor, id, *credentials); !sealed)
    return answer_of(refuse(sealed.error()));
  return reading(store, [&](ReadTransaction& t) { return answer_endpoint(t, answer.status, id); });
}

}  // namespace

Answer Service::create_endpoint(const Request& request) {
  EndpointBody wanted;
  Endpoint endpoint;
  Answer answer = writing_body(store_, request, need_provider_admin,
                               [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                                 endpoint = {};
                                 body.require("url");
                                 body.require("siteId");
                                 const SiteId site_id{body.uuid("siteId").value_or(Uuid{})};
                                 IMEX_GET(wanted, change_endpoint(body, endpoint));
                                 IMEX_GET(const Provider provider, own_provider(t, request.caller));
                                 IMEX_GET(const auto site, t.find<Site>(site_id));
                                 if (!site || site->provider != provider.id)
                                   return refuse_field("siteId", "names no site of this provider");
                                 endpoint.id = {os::random_uuid()};
                                 endpoint.site = site_id;
                                 endpoint.state = "not yet contacted";
                                 IMEX_PASS(check_endpoint_url(t, endpoint));
                                 IMEX_PASS(t.insert(endpoint));
                                 t.wake_reconciler();
                                 return answer_endpoint(t, 201, endpoint.id);
                               });
  return with_credentials(store_, request, std::move(answer), endpoint.id, wanted.credentials);
}

Answer Service::update_endpoint(const Request& request) {
  EndpointBody wanted;
  EndpointId id;
  Answer answer = writing_body(store_, request, need_provider_admin,
                               [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                                 IMEX_GET(Endpoint endpoint, own_endpoint(t, request));
                                 IMEX_GET(wanted, change_endpoint(body, endpoint));
                                 IMEX_PASS(check_endpoint_url(t, endpoint));
                                 IMEX_PASS(t.update(endpoint));
                                 t.wake_reconciler();
                                 id = endpoint.id;
                                 return answer_endpoint(t, 200, id);
                               });
  return with_credentials(store_, request, std::move(answer), id, wanted.credentials);
}

Answer Service::list_endpoints(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(ListRequest list, untitled_list(request.query));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    IMEX_GET(auto sites, sites_of(t, provider));
    list.query.filters.push_back(any_of(Field::kSite, std::move(sites)));
    return answer_list<Endpoint>(t, list,
                                 [&](JsonWriter& json, const Endpoint& endpoint) -> Checked<void> {
                                   render_endpoint(json, endpoint, t.now());
                                   return {};
                                 });
  });
}

Answer Service::get_endpoint(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(const Endpoint endpoint, own_endpoint(t, request));
    return answer_endpoint(t, 200, endpoint.id);
  });
}

Answer Service::delete_endpoint(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider_admin(request.caller));
    IMEX_GET(const Endpoint endpoint, own_endpoint(t, request));
    IMEX_PASS(t.put_credentials(endpoint.id, ""));
    IMEX_PASS(t.remove<Endpoint>(endpoint.id));
    t.wake_reconciler();
    return deletion_accepted();
  });
}

// ---- Domains, partitions, operations -----------------------------------------------------------

namespace {

void render_domain_members(JsonWriter& json, const Domain& domain, WallTime now,
                           std::chrono::seconds valid) {
  json.member("id", domain.id).member("siteId", domain.site).member("manager", domain.manager);
  json.member("managerVersion", domain.manager_version);
  json.member("controlPlane", domain.control_plane).key("limits").begin_object();
  json.member("partitionsMax", domain.limits.partitions_max);
  json.member("multicastGroupsMax", domain.limits.multicast_groups_max);
  json.member("multicastGroupsFree", domain.limits.multicast_groups_free).end_object();
  json.member("observedAt", domain.observed_at);
  json.member("observationFresh", is_fresh(domain.observed_at, now, valid));
  json.member("created", domain.created).member("updated", domain.updated);
}

Checked<std::vector<Machine>> trays_of(ReadTransaction& t, const DomainId& id) {
  ListQuery query;
  query.filters.push_back({Field::kDomain, {id.to_string()}});
  query.order = Field::kId;
  IMEX_GET(auto machines, t.list<Machine>(query));
  std::sort(machines.begin(), machines.end(), [](const Machine& a, const Machine& b) {
    return std::tie(a.chassis_serial, a.slot_id) < std::tie(b.chassis_serial, b.slot_id);
  });
  return machines;
}

void render_tray(JsonWriter& json, const Machine& machine) {
  json.begin_object().member("machineId", machine.id).member("status", machine.status);
  json.member("chassisSerial", machine.chassis_serial).member("trayIndex", machine.tray_index);
  json.member("slotId", machine.slot_id).member("instanceId", machine.instance);
  json.key("gpus").begin_array();
  for (const Gpu& gpu : machine.gpus) {
    json.begin_object().member("deviceInstance", gpu.device_instance);
    json.member("gpuGuid", std::to_string(gpu.uid)).member("health", gpu.health);
    json.member("fabricPartitionId", gpu.fabric_partition).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

Answer Service::list_domains(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(ListRequest list, untitled_list(request.query));
    IMEX_PASS(filter_ids(list, request.query, "siteId", Field::kSite));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    IMEX_GET(auto sites, sites_of(t, provider));
    list.query.filters.push_back(any_of(Field::kSite, std::move(sites)));
    return answer_list<Domain>(
        t, list, [&](JsonWriter& json, const Domain& domain) -> Checked<void> {
          IMEX_GET(const auto trays, trays_of(t, domain.id));
          const auto free = std::count_if(trays.begin(), trays.end(), [](const Machine& tray) {
            return tray.status == Status::kReady && !tray.instance;
          });
          json.begin_object();
          render_domain_members(json, domain, t.now(), options_.observation_valid);
          json.member("trayCount", trays.size()).member("freeTrays", free).end_object();
          return {};
        });
  });
}

Answer Service::get_domain(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(const auto id, path_id<Domain>(request, "the domain's id"));
    IMEX_GET(const auto domains, domains_of(t, request.caller));
    const auto domain = std::find_if(domains.begin(), domains.end(),
                                     [&](const Domain& known) { return known.id == id; });
    if (domain == domains.end())
      return refuse(404, fmt::format("domain {} is not known", id.to_string()));
    IMEX_GET(const auto trays, trays_of(t, id));
    JsonWriter json;
    json.begin_object();
    render_domain_members(json, *domain, t.now(), options_.observation_valid);
    json.key("trays").begin_array();
    for (const Machine& tray : trays) render_tray(json, tray);
    json.end_array().end_object();
    return json_answer(200, std::move(json));
  });
}

Answer Service::list_physical_partitions(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(ListRequest list, untitled_list(request.query));
    IMEX_PASS(limit_to_owner(t, request.caller, list));
    IMEX_PASS(filter_ids(list, request.query, "nvLinkDomainId", Field::kDomain));
    IMEX_PASS(filter_ids(list, request.query, "nvLinkLogicalPartitionId", Field::kPartition));
    return answer_list<PhysicalPartition>(
        t, list, [](JsonWriter& json, const PhysicalPartition& partition) -> Checked<void> {
          render_physical(json, partition);
          return {};
        });
  });
}

Answer Service::list_operations(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(ListRequest list, untitled_list(request.query));
    if (!list.order_by) list.query.descending = true;  // what happened last is what is asked for
    IMEX_PASS(limit_to_owner(t, request.caller, list));
    IMEX_PASS(filter_ids(list, request.query, "nvLinkDomainId", Field::kDomain));
    IMEX_PASS(filter_ids(list, request.query, "nvLinkLogicalPartitionId", Field::kPartition));
    for (const std::string& state : request.query.all("state"))
      if (!parse_operation_state(state)) return refuse(400, "state is none of an operation's");
    IMEX_PASS(filter_text(list, request.query, "state", Field::kState));
    return answer_list<OperationRecord>(
        t, list, [](JsonWriter& json, const OperationRecord& operation) -> Checked<void> {
          render_operation(json, operation);
          return {};
        });
  });
}

Answer Service::get_operation(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    ListRequest limit;
    IMEX_PASS(limit_to_owner(t, request.caller, limit));
    IMEX_GET(const auto id, path_id<OperationRecord>(request, "the operation's id"));
    limit.query.filters.push_back({Field::kId, {id.to_string()}});
    IMEX_GET(const auto found, t.list<OperationRecord>(limit.query));
    if (found.empty())
      return refuse(404, fmt::format("operation {} does not exist", id.to_string()));
    JsonWriter json;
    render_operation(json, found.front());
    return json_answer(200, std::move(json));
  });
}

// ---- Reservations ------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kReservedTraysMax = 1024;

Checked<Reservation> read_reservation(Body& body, WallTime now) {
  for (const std::string_view field :
       {"nvLinkLogicalPartitionId", "nvLinkDomainId", "instanceTypeId", "trays", "expires"})
    body.require(field);
  Reservation out;
  out.partition = {body.uuid("nvLinkLogicalPartitionId").value_or(Uuid{})};
  out.domain = {body.uuid("nvLinkDomainId").value_or(Uuid{})};
  out.instance_type = {body.uuid("instanceTypeId").value_or(Uuid{})};
  out.trays = static_cast<std::uint32_t>(body.integer("trays", 1, kReservedTraysMax).value_or(1));
  out.expires = body.time("expires").value_or(now);
  if (body.has("expires") && out.expires <= now) body.wrong("expires", "must lie in the future");
  IMEX_PASS(body.check());
  return out;
}

/// So many trays must be free and not promised already.
Checked<void> check_room(ReadTransaction& t, const Reservation& wanted) {
  ListQuery free;
  free.filters.push_back({Field::kDomain, {wanted.domain.to_string()}});
  free.filters.push_back({Field::kInstanceType, {wanted.instance_type.to_string()}});
  free.filters.push_back({Field::kStatus, {"Ready"}});
  IMEX_GET(const std::uint64_t trays, t.count<Machine>(free));
  ListQuery there;
  there.filters.push_back({Field::kDomain, {wanted.domain.to_string()}});
  IMEX_GET(const auto reservations, t.list<Reservation>(there));
  std::uint64_t promised = 0;
  for (const Reservation& other : reservations) {
    if (other.expires <= t.now() || other.instance_type != wanted.instance_type) continue;
    IMEX_GET(const std::uint32_t taken, t.trays_in(other.partition, other.domain, other.created));
    promised += other.trays - std::min(other.trays, taken);
  }
  if (promised + wanted.trays > trays)
    return refuse(409, fmt::format("{} trays of this type are free in the domain, {} of them are "
                                   "reserved already",
                                   trays, promised));
  return {};
}

Checked<Reservation> own_reservation(ReadTransaction& t, const Request& request) {
  IMEX_PASS(need_tenant_admin(request.caller));
  IMEX_GET(const auto id, path_id<Reservation>(request, "the reservation's id"));
  IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
  return own<Reservation>(t, tenant, id, "reservation");
}

}  // namespace

Answer Service::create_reservation(const Request& request) {
  return writing_body(
      store_, request, need_tenant_admin, [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
        IMEX_GET(Reservation reservation, read_reservation(body, t.now()));
        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
        IMEX_GET(const auto partition,
                 own<LogicalPartition>(t, tenant, reservation.partition, "logical partition"));
        if (partition.status == Status::kDeleting)
          return refuse(400, "the logical partition is being deleted");
        IMEX_GET(const auto domain, t.find<Domain>(reservation.domain));
        if (!domain || domain->site != partition.site)
          return refuse_field("nvLinkDomainId", "names no domain of the partition's site");
        IMEX_GET(const auto type, t.find<InstanceType>(reservation.instance_type));
        if (!type || type->site != partition.site)
          return refuse_field("instanceTypeId", "names no instance type of the partition's site");
        // Nobody may hold back more than what it may use.
        IMEX_GET(const std::uint64_t allowed, t.allocated_machines(tenant.id, type->id));
        if (reservation.trays > allowed)
          return refuse(403,
                        fmt::format("the tenant's quota of this type is {} machines", allowed));
        IMEX_PASS(check_room(t, reservation));
        reservation.id = {os::random_uuid()};
        reservation.tenant = tenant.id;
        reservation.site = partition.site;
        IMEX_PASS(t.insert(reservation));
        JsonWriter json;
        render_reservation(json, reservation);
        return json_answer(201, std::move(json));
      });
}

Answer Service::list_reservations(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(ListRequest list, untitled_list(request.query));
    IMEX_PASS(limit_to_owner(t, request.caller, list));
    IMEX_PASS(filter_ids(list, request.query, "nvLinkDomainId", Field::kDomain));
    IMEX_PASS(filter_ids(list, request.query, "nvLinkLogicalPartitionId", Field::kPartition));
    return answer_list<Reservation>(
        t, list, [](JsonWriter& json, const Reservation& reservation) -> Checked<void> {
          render_reservation(json, reservation);
          return {};
        });
  });
}

Answer Service::get_reservation(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Reservation reservation, own_reservation(t, request));
    JsonWriter json;
    render_reservation(json, reservation);
    return json_answer(200, std::move(json));
  });
}

Answer Service::delete_reservation(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Reservation reservation, own_reservation(t, request));
    IMEX_PASS(t.remove<Reservation>(reservation.id));
    return deletion_accepted();
  });
}

// ---- Health ------------------------------------------------------------------------------------

namespace {

/// One link of the chain from endpoint to converged state, in the order in which to look.
struct Link {
  std::string name, state, message;
  bool ok = true;
};

Checked<std::vector<Link>> chain_of(ReadTransaction& t, const Caller& caller,
                                    std::chrono::seconds valid) {
  std::vector<Link> chain;
  const auto add = [&](std::string name, bool ok, std::string message) {
    chain.push_back({std::move(name), ok ? "ok" : "broken", std::move(message), ok});
  };
  IMEX_GET(const Provider provider, own_provider(t, caller));
  IMEX_GET(auto sites, sites_of(t, provider));
  ListQuery at_sites;
  at_sites.filters.push_back(any_of(Field::kSite, std::move(sites)));
  IMEX_GET(const auto endpoints, t.list<Endpoint>(at_sites));
  add("endpoints", !endpoints.empty(),
      endpoints.empty() ? "no fabric manager is configured; POST /nvlink-endpoint"
                        : fmt::format("{} configured", endpoints.size()));
  for (const Endpoint& endpoint : endpoints)
    add("endpoint " + endpoint.url, endpoint.state == "reachable",
        endpoint.state + (endpoint.last_contact
                              ? ", last contact " + rfc3339(*endpoint.last_contact)
                              : std::string()));
  IMEX_GET(const auto domains, t.list<Domain>(at_sites));
  for (const Domain& domain : domains) {
    const std::string name = "domain " + domain.id.to_string();
    add(name + " control plane", domain.control_plane == "configured", domain.control_plane);
    const bool fresh = is_fresh(domain.observed_at, t.now(), valid);
    add(name + " observation", fresh,
        domain.observed_at ? "last " + rfc3339(*domain.observed_at) : "never observed");
    IMEX_GET(const DesiredDomain desired, read_desired(t, domain.id));
    const auto steps = planned_operations(desired);
    add(name + " convergence", steps.empty(),
        steps.empty() ? "observed equals desired"
                      : fmt::format("{} operations are outstanding, the first: {} of partition {}",
                                    steps.size(), operation_kind_name(steps[0].kind),
                                    steps[0].partition->to_string()));
    IMEX_GET(const auto observed, t.observed_partitions(domain.id));
    const auto strangers = std::count_if(observed.begin(), observed.end(), [&](const auto& seen) {
      return std::none_of(desired.physical.begin(), desired.physical.end(),
                          [&](const auto& ours) { return ours.fabric_id == seen.fabric_id; });
    });
    // For information: the default and tray partitions are among them.
    chain.push_back({name + " other partitions", "info",
                     fmt::format("{} partitions are not ours", strangers), true});
  }
  return chain;
}

}  // namespace

Answer Service::get_health(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(const auto chain, chain_of(t, request.caller, options_.observation_valid));
    const auto broken =
        std::find_if(chain.begin(), chain.end(), [](const Link& link) { return !link.ok; });
    JsonWriter json;
    json.begin_object().member("healthy", broken == chain.end()).key("firstBroken");
    if (broken == chain.end())
      json.value(nullptr);
    else
      json.begin_object()
          .member("name", broken->name)
          .member("message", broken->message)
          .end_object();
    json.key("checks").begin_array();
    for (const Link& link : chain)
      json.begin_object()
          .member("name", link.name)
          .member("state", link.state)
          .member("message", link.message)
          .end_object();
    json.end_array().end_object();
    return json_answer(200, std::move(json));
  });
}

Answer Service::list_audit_records(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider_admin(request.caller));
    IMEX_GET(const ListRequest list, untitled_list(request.query));
    // The log is one for the whole store: for whom the whole store belongs to.
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    ListQuery others;
    others.filters.push_back({Field::kProvider, {provider.id.to_string()}, true});
    IMEX_GET(const std::uint64_t foreign_sites, t.count<Site>(others));
    IMEX_GET(const auto own_sites, sites_of(t, provider));
    if (foreign_sites > 0 || own_sites.empty())
      return refuse(403, "the audit log is for a provider that owns all sites");
    std::uint64_t before = 0;
    if (const auto text = request.query.one("before")) {
      const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), before);
      if (error != std::errc() || end != text->data() + text->size())
        return refuse(400, "before must be a sequence number");
    }
    IMEX_GET(const auto records, t.audit_log(before, list.page_size));
    JsonWriter json;
    json.begin_array();
    for (const AuditRecord& record : records) {
      json.begin_object().member("sequence", record.sequence).member("time", record.at);
      json.member("actor", record.actor).member("org", record.org);
      json.member("action", record.action).member("kind", kind_name(record.kind));
      json.member("object", record.object).raw_member("from", record.from_json);
      json.raw_member("to", record.to_json).end_object();
    }
    json.end_array();
    return json_answer(200, std::move(json));
  });
}

}  // namespace imex::partition
