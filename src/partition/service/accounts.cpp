// Who is asking: metadata, user, tenant, provider (2.10).
#include <algorithm>

#include "context.hpp"
#include "os/random.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

void render_account(JsonWriter& json, const std::string& id, const std::string& org,
                    const std::string& display_name, WallTime created, WallTime updated) {
  json.begin_object().member("id", id).member("org", org).key("orgDisplayName");
  if (display_name.empty())
    json.value(nullptr);
  else
    json.value(display_name);
  json.member("created", created).member("updated", updated);
}

Answer tenant_answer(const Tenant& tenant) {
  JsonWriter json;
  render_account(json, tenant.id.to_string(), tenant.org, tenant.display_name, tenant.created,
                 tenant.updated);
  json.key("capabilities").begin_object();
  json.member("targetedInstanceCreation", tenant.targeted_instance_creation);
  json.end_object().end_object();
  return json_answer(200, std::move(json));
}

Answer provider_answer(const Provider& provider) {
  JsonWriter json;
  render_account(json, provider.id.to_string(), provider.org, provider.display_name,
                 provider.created, provider.updated);
  json.end_object();
  return json_answer(200, std::move(json));
}

struct Counted {
  std::string_view name;
  Status status;
};

/// {"total": n, "pending": n, …}: how many objects have each status.
template <class T>
Checked<void> render_counts(ReadTransaction& t, JsonWriter& json, const ListQuery& of_owner,
                            std::initializer_list<Counted> counted) {
  IMEX_GET(const std::uint64_t total, t.count<T>(of_owner));
  json.begin_object().member("total", total);
  for (const Counted& entry : counted) {
    ListQuery query = of_owner;
    query.filters.push_back({Field::kStatus, {std::string(status_name(entry.status))}});
    IMEX_GET(const std::uint64_t count, t.count<T>(query));
    json.member(entry.name, count);
  }
  json.end_object();
  return {};
}

constexpr std::string_view kNone = R"({"total":0,"pending":0,"provisioning":0,"ready":0,)"
                                   R"("deleting":0,"error":0})";
constexpr std::string_view kNoAccounts =
    R"({"total":0,"pending":0,"invited":0,"ready":0,"error":0})";

}  // namespace

Answer Service::get_metadata(const Request&) {
  JsonWriter json;
  json.begin_object().member("version", options_.version);
  json.member("buildTime", options_.build_time).end_object();
  return json_answer(200, std::move(json));
}

Answer Service::get_user(const Request& request) {
  const Caller& caller = request.caller;
  const auto text = [](const std::string& value) {
    return value.empty() ? std::nullopt : std::optional(value);
  };
  // There is no table of users: the id is the subject's, by name.
  Uuid id;
  for (std::size_t i = 0; i < caller.subject.size(); ++i)
    id.bytes[i % 16] = static_cast<std::byte>(std::to_integer<unsigned>(id.bytes[i % 16]) * 31U +
                                              static_cast<unsigned char>(caller.subject[i]));
  JsonWriter json;
  json.begin_object().member("id", id.to_string()).member("email", text(caller.email));
  json.member("firstName", text(caller.first_name)).member("lastName", text(caller.last_name));
  json.member("created", WallTime{}).member("updated", WallTime{}).end_object();
  return json_answer(200, std::move(json));
}

Answer Service::get_tenant(const Request& request) {
  if (auto role = need_tenant_admin(request.caller); !role) return answer_of(refuse(role.error()));
  std::optional<Answer> known;
  const Answer read = reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const auto tenant, t.tenant_of(request.caller.org));
    if (tenant) known = tenant_answer(*tenant);
    return Answer{};
  });
  if (known || read.status != 200) return known.value_or(read);
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(auto tenant, t.tenant_of(request.caller.org));  // somebody else may have been faster
    if (!tenant) {
      tenant.emplace();
      tenant->id = {os::random_uuid()};
      tenant->org = request.caller.org;
      IMEX_PASS(t.insert(*tenant));
    }
    return tenant_answer(*tenant);
  });
}

Answer Service::get_tenant_stats(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    ListQuery mine;
    mine.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
    JsonWriter json;
    json.begin_object().key("instance");
    IMEX_PASS(render_counts<Instance>(t, json, mine,
                                      {{"pending", Status::kPending},
                                       {"terminating", Status::kTerminating},
                                       {"ready", Status::kReady},
                                       {"repairing", Status::kRepairing},
                                       {"updating", Status::kUpdating},
                                       {"registering", Status::kRegistering},
                                       {"error", Status::kError}}));
    json.key("vpc");
    IMEX_PASS(render_counts<Vpc>(t, json, mine,
                                 {{"pending", Status::kPending},
                                  {"provisioning", Status::kProvisioning},
                                  {"ready", Status::kReady},
                                  {"deleting", Status::kDeleting},
                                  {"error", Status::kError}}));
    json.raw_member("subnet", kNone).raw_member("tenantAccount", kNoAccounts).end_object();
    return json_answer(200, std::move(json));
  });
}

Answer Service::get_provider(const Request& request) {
  if (auto role = need_provider(request.caller); !role) return answer_of(refuse(role.error()));
  std::optional<Answer> known;
  const Answer read = reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const auto provider, t.provider_of(request.caller.org));
    if (provider) known = provider_answer(*provider);
    return Answer{};
  });
  if (known || read.status != 200) return known.value_or(read);
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(auto provider, t.provider_of(request.caller.org));
    if (!provider) {
      provider.emplace();
      provider->id = {os::random_uuid()};
      provider->org = request.caller.org;
      IMEX_PASS(t.insert(*provider));
    }
    return provider_answer(*provider);
  });
}

Answer Service::get_provider_stats(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    ListQuery sites;
    sites.filters.push_back({Field::kProvider, {provider.id.to_string()}});
    IMEX_GET(const auto owned, t.list<Site>(sites));
    ListQuery machines;
    Filter at_sites{Field::kSite, {}};
    for (const Site& site : owned) at_sites.values.push_back(site.id.to_string());
    // No site: no machine matches the nil id. (An empty list would mean "without a site".)
    if (at_sites.values.empty()) at_sites.values.push_back(Uuid{}.to_string());
    machines.filters.push_back(std::move(at_sites));
    JsonWriter json;
    json.begin_object().key("machine");
    IMEX_PASS(render_counts<Machine>(t, json, machines,
                                     {{"initializing", Status::kInitializing},
                                      {"ready", Status::kReady},
                                      {"reset", Status::kReset},
                                      {"maintenance", Status::kMaintenance},
                                      {"inUse", Status::kInUse},
                                      {"error", Status::kError},
                                      {"decommissioned", Status::kDecommissioned},
                                      {"unknown", Status::kUnknown}}));
    json.raw_member("ipBlock", kNone).raw_member("tenantAccount", kNoAccounts).end_object();
    return json_answer(200, std::move(json));
  });
}

Answer Service::get_service_account(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    IMEX_GET(const auto tenant, t.tenant_of(request.caller.org));
    IMEX_GET(const auto provider, t.provider_of(request.caller.org));
    const bool enabled = request.caller.service_account;
    JsonWriter json;
    json.begin_object().member("enabled", enabled);
    json.member("infrastructureProviderId",
                enabled && provider ? std::optional(provider->id) : std::nullopt);
    json.member("tenantId", enabled && tenant ? std::optional(tenant->id) : std::nullopt);
    json.end_object();
    return json_answer(200, std::move(json));
  });
}

Answer Service::list_nothing(const Request& request) {
  return reading(store_, [&](ReadTransaction&) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    IMEX_GET(const ListRequest list, list_request(request.query, {{"NAME", Field::kName},
                                                                  {"STATUS", Field::kStatus},
                                                                  {"CREATED", Field::kCreated},
                                                                  {"UPDATED", Field::kUpdated}}));
    Answer answer;
    answer.body = "[]";
    answer.pagination = pagination_of(list, 0);
    return answer;
  });
}

}  // namespace imex::partition
