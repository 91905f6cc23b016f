#include "context.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>

#include "render.hpp"

namespace imex::partition {
namespace {

/// Values of one filter; more is a mistake or a trick.
constexpr std::size_t kFilterValuesMax = 100;
constexpr std::size_t kFilterLengthMax = 1024;

Checked<void> need(bool allowed, std::string_view role) {
  if (allowed) return {};
  return refuse(403, fmt::format("this needs the role {}", role));
}

Checked<std::uint64_t> number_of(const Query& query, std::string_view parameter,
                                 std::uint64_t value, std::uint64_t max) {
  const auto text = query.one(parameter);
  if (!text) return value;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 1 || value > max)
    return refuse(400, fmt::format("{} must be an integer from 1 to {}", parameter, max));
  return value;
}

Checked<std::vector<std::string>> values_of(const Query& query, std::string_view parameter) {
  auto values = query.all(parameter);
  if (values.size() > kFilterValuesMax)
    return refuse(400, fmt::format("{} is given {} times, at most {} are taken", parameter,
                                   values.size(), kFilterValuesMax));
  for (const std::string& value : values)
    if (value.size() > kFilterLengthMax || value.find('\0') != std::string::npos)
      return refuse(400, fmt::format("a value of {} is too long, or contains NUL", parameter));
  return values;
}

Checked<std::string> plan_json(ReadTransaction& t) {
  IMEX_GET(const auto domains, t.list<Domain>({}));
  JsonWriter json;
  json.begin_array();
  for (const Domain& domain : domains) {
    IMEX_GET(const DesiredDomain desired, read_desired(t, domain.id));
    for (const OperationRecord& operation : planned_operations(desired))
      render_step(json, operation);
  }
  return std::move(json.end_array()).text();
}

Answer rehearsed(const Answer& answer, const std::string& plan) {
  JsonWriter json;
  json.begin_object().member("dryRun", true).member("status", answer.status);
  json.raw_member("object", answer.content_type == "application/json" ? answer.body : "null");
  json.raw_member("operations", plan).end_object();
  return json_answer(200, std::move(json));
}

}  // namespace

// ---- Query -------------------------------------------------------------------------------------

std::optional<std::string_view> Query::one(std::string_view name) const {
  for (const auto& [key, value] : parameters_)
    if (key == name) return value;
  return std::nullopt;
}

std::vector<std::string> Query::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : parameters_)
    if (key == name) values.push_back(value);
  return values;
}

// ---- Roles -------------------------------------------------------------------------------------

bool is_provider(const Caller& caller) {
  return caller.service_account || caller.roles.provider_admin || caller.roles.provider_viewer;
}
bool is_tenant(const Caller& caller) { return caller.service_account || caller.roles.tenant_admin; }
Checked<void> need_tenant_admin(const Caller& caller) {
  return need(is_tenant(caller), "TENANT_ADMIN");
}
Checked<void> need_provider_admin(const Caller& caller) {
  return need(caller.service_account || caller.roles.provider_admin, "PROVIDER_ADMIN");
}
Checked<void> need_provider(const Caller& caller) {
  return need(is_provider(caller), "PROVIDER_ADMIN or PROVIDER_VIEWER");
}
Checked<void> need_anyone(const Caller& caller) {
  return need(is_provider(caller) || is_tenant(caller),
              "PROVIDER_ADMIN, PROVIDER_VIEWER or TENANT_ADMIN");
}

// ---- Answers and transactions ------------------------------------------------------------------

Service::Service(Store& store, ServiceOptions options)
    : store_(store), options_(std::move(options)) {}

Answer Service::error(int status, std::string_view message, std::string_view data_json) {
  JsonWriter json;
  json.begin_object().member("source", "nico").member("message", message);
  json.raw_member("data", data_json).end_object();
  return json_answer(status, std::move(json));
}

Answer json_answer(int status, JsonWriter&& json) {
  Answer answer;
  answer.status = status;
  answer.body = std::move(json).text();
  return answer;
}

Answer deletion_accepted() {
  Answer answer;
  answer.status = 202;
  answer.body = "Deletion request was accepted";
  answer.content_type = "text/plain";
  return answer;
}

Answer answer_of(Checked<Answer> checked) {
  if (checked) return std::move(*checked);
  const Refusal& refusal = checked.error();
  return Service::error(refusal.status, refusal.message, refusal.data_json);
}

Answer reading(Store& store, const ReadWork& work) {
  Checked<Answer> answer;
  const Result<void> done = store.read([&](ReadTransaction& t) -> Result<void> {
    answer = work(t);
    return {};
  });
  if (!done) answer = refuse(done.error());
  return answer_of(std::move(answer));
}

Answer writing(Store& store, const Request& request, const WriteWork& work) {
  const Checked<bool> dry = flag(request.query, "dryRun");
  if (!dry) return answer_of(refuse(dry.error()));
  Checked<Answer> answer;
  std::string plan;
  const auto run = [&](WriteTransaction& t) -> Result<void> {
    answer = work(t);
    if (answer && *dry) {
      Checked<std::string> planned = plan_json(t);
      if (planned)
        plan = std::move(*planned);
      else
        answer = refuse(planned.error());
    }
    // The error only undoes the transaction; what is said is in `answer`.
    if (!answer) return fail(Errc::kAborted, "refused");
    return {};
  };
  const Actor actor{request.caller.subject, request.caller.org};
  const Result<void> done = *dry ? store.rehearse(actor, run) : store.write(actor, run);
  if (!done && done.error().code != Errc::kAborted) answer = refuse(done.error());
  if (answer && *dry) return rehearsed(*answer, plan);
  return answer_of(std::move(answer));
}

std::vector<OperationRecord> planned_operations(const DesiredDomain& desired) {
  std::map<LogicalPartitionId, std::set<std::uint64_t>> wanted;
  for (const DesiredMachine& machine : desired.machines)
    for (const DesiredGpu& gpu : machine.gpus)
      if (gpu.partition) wanted[*gpu.partition].insert(gpu.uid);
  std::vector<OperationRecord> steps;
  const auto add = [&](OperationKind kind, const LogicalPartitionId& partition,
                       std::uint32_t fabric_id, std::vector<std::uint64_t> uids) {
    OperationRecord step;
    step.domain = desired.domain.id;
    step.kind = kind;
    step.partition = partition;
    step.fabric_id = fabric_id;
    step.gpu_uids = std::move(uids);
    steps.push_back(std::move(step));
  };
  for (const PhysicalPartition& row : desired.physical) {
    const std::set<std::uint64_t> target = std::exchange(wanted[row.partition], {});
    const std::set<std::uint64_t> present(row.gpu_uids.begin(), row.gpu_uids.end());
    std::vector<std::uint64_t> leaving, joining;
    std::set_difference(present.begin(), present.end(), target.begin(), target.end(),
                        std::back_inserter(leaving));
    std::set_difference(target.begin(), target.end(), present.begin(), present.end(),
                        std::back_inserter(joining));
    if (target.empty()) {
      add(OperationKind::kDeletePartition, row.partition, row.fabric_id, row.gpu_uids);
      continue;
    }
    if (!leaving.empty())
      add(OperationKind::kRemoveGpus, row.partition, row.fabric_id, std::move(leaving));
    if (!joining.empty())
      add(OperationKind::kAddGpus, row.partition, row.fabric_id, std::move(joining));
  }
  for (const auto& [partition, uids] : wanted)
    if (!uids.empty())
      add(OperationKind::kCreatePartition, partition, 0, {uids.begin(), uids.end()});
  return steps;
}

// ---- Entities ----------------------------------------------------------------------------------

Checked<Tenant> own_tenant(ReadTransaction& t, const Caller& caller, int status) {
  IMEX_GET(std::optional<Tenant> tenant, t.tenant_of(caller.org));
  if (!tenant)
    return refuse(status,
                  fmt::format("org {} has no tenant yet; GET tenant/current makes it", caller.org));
  return std::move(*tenant);
}

Checked<Provider> own_provider(ReadTransaction& t, const Caller& caller, int status) {
  IMEX_GET(std::optional<Provider> provider, t.provider_of(caller.org));
  if (!provider)
    return refuse(status, fmt::format("org {} has no infrastructure provider yet; "
                                      "GET infrastructure-provider/current makes it",
                                      caller.org));
  return std::move(*provider);
}

Checked<Uuid> uuid_of(std::string_view text, std::string_view what) {
  auto id = Uuid::parse(text);
  if (!id) return refuse(400, fmt::format("{} must be a UUID", what));
  return *id;
}

Checked<bool> has_allocation(ReadTransaction& t, const Tenant& tenant, const SiteId& site) {
  ListQuery query;
  query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
  query.filters.push_back({Field::kSite, {site.to_string()}});
  IMEX_GET(const std::uint64_t count, t.count<Allocation>(query));
  return count > 0;
}

// ---- Lists -------------------------------------------------------------------------------------

Checked<ListRequest> list_request(const Query& query, std::initializer_list<Ordering> orderings) {
  ListRequest list;
  IMEX_GET(list.page_number, number_of(query, "pageNumber", 1, 1'000'000'000));
  IMEX_GET(list.page_size, number_of(query, "pageSize", 20, 100));
  list.query.offset = (list.page_number - 1) * list.page_size;
  list.query.limit = list.page_size;
  if (const auto text = query.one("query")) {
    if (text->size() > kFilterLengthMax || text->find('\0') != std::string_view::npos)
      return refuse(400, "query is too long, or contains NUL");
    list.query.text = *text;
  }
  const auto order = query.one("orderBy");
  if (!order) return list;
  const bool descending = order->ends_with("_DESC");
  std::string_view field = *order;
  if (!descending && !field.ends_with("_ASC"))
    return refuse(400, "orderBy must end in _ASC or _DESC");
  field.remove_suffix(descending ? 5 : 4);
  for (const Ordering& ordering : orderings)
    if (ordering.name == field) {
      list.query.order = ordering.field;
      list.query.descending = descending;
      list.order_by = std::string(*order);
      return list;
    }
  return refuse(400, "orderBy names no field that this list can be ordered by");
}

Checked<void> filter_ids(ListRequest& list, const Query& query, std::string_view parameter,
                         Field field) {
  IMEX_GET(std::vector<std::string> values, values_of(query, parameter));
  for (std::string& value : values) {
    IMEX_GET(const Uuid id, uuid_of(value, parameter));
    value = id.to_string();
  }
  if (!values.empty()) list.query.filters.push_back({field, std::move(values)});
  return {};
}

Checked<void> filter_status(ListRequest& list, const Query& query, Kind kind) {
  IMEX_GET(std::vector<std::string> values, values_of(query, "status"));
  for (const std::string& value : values) {
    const auto status = parse_status(value);
    if (!status || !is_status_of(kind, *status))
      return refuse(400, "status is none that these objects can have");
  }
  if (!values.empty()) list.query.filters.push_back({Field::kStatus, std::move(values)});
  return {};
}

Checked<void> filter_text(ListRequest& list, const Query& query, std::string_view parameter,
                          Field field) {
  IMEX_GET(std::vector<std::string> values, values_of(query, parameter));
  if (!values.empty()) list.query.filters.push_back({field, std::move(values)});
  return {};
}

Checked<bool> flag(const Query& query, std::string_view parameter) {
  const auto text = query.one(parameter);
  if (!text) return false;
  if (*text == "true" || *text == "1") return true;
  if (*text == "false" || *text == "0") return false;
  return refuse(400, fmt::format("{} must be true or false", parameter));
}

Checked<Relations> Relations::of(const Query& query,
                                 std::initializer_list<std::string_view> allowed) {
  Relations relations;
  relations.asked_ = query.all("includeRelation");
  for (const std::string& relation : relations.asked_)
    if (std::find(allowed.begin(), allowed.end(), relation) == allowed.end())
      return refuse(400, fmt::format("includeRelation takes: {}", fmt::join(allowed, ", ")));
  return relations;
}

bool Relations::has(std::string_view relation) const {
  return std::find(asked_.begin(), asked_.end(), relation) != asked_.end();
}

std::string pagination_of(const ListRequest& list, std::uint64_t total) {
  JsonWriter json;
  json.begin_object().member("pageNumber", list.page_number).member("pageSize", list.page_size);
  json.member("total", total).member("orderBy", list.order_by).end_object();
  return std::move(json).text();
}

}  // namespace imex::partition
