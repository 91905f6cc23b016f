#include "partition/client/client.hpp"

#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "decode.hpp"
#include "encode.hpp"
#include "json/json.hpp"
#include "net/http/client.hpp"
#include "refusal.hpp"

namespace imex::partition::client {
namespace {

using net::http::ClientResponse;
using net::http::Method;

constexpr std::uint64_t kPageSize = 100;
/// A list that goes on beyond this is not read to its end.
constexpr std::uint64_t kListMax = 100'000;

constexpr std::string_view kPartitions = "/nvlink-logical-partition", kVpcs = "/vpc",
                           kInstances = "/instance", kBatch = "/instance/batch",
                           kInterfaces = "/nvlink-interface", kSites = "/site",
                           kTypes = "/instance/type", kTenant = "/tenant/current";
constexpr std::string_view kWithUsage = "includeStats=true&includeVpcs=true";

template <class IdOf>
std::string of_id(std::string_view collection, const IdOf& id) {
  return fmt::format("{}/{}", collection, id.to_string());
}

Error no_answer_of_the_api(Error error, std::string_view what) {
  error.code = Errc::kDataLoss;
  if (error.hint.empty())
    error.hint = "is that URL a controller's? This program and it may be of different versions";
  return std::move(error).context(fmt::format("answer to {}", what));
}

/// How many objects a list has in all.
Result<std::uint64_t> total_of(const ClientResponse& answer) {
  const auto header = answer.headers.find("X-Pagination");
  if (!header) return fail(Errc::kInvalidArgument, "header X-Pagination is missing");
  IMEX_TRY(const auto pagination, json::parse(*header, "X-Pagination"));
  return json::required_u64(pagination, "total");
}

}  // namespace

struct Client::Impl {
  std::unique_ptr<net::http::Client> http;
  std::string base;
  Nanos timeout{};

  /// `what` names the request in errors.
  Result<ClientResponse> call(Method method, std::string path, std::string body,
                              std::string_view what) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::ceil<std::chrono::milliseconds>(timeout);
    auto answer =
        http->send({.method = method, .path = base + path, .body = std::move(body)}, deadline);
    if (!answer) return fail(std::move(answer).error().context(what));
    if (answer->status < 200 || answer->status >= 300) return fail(refusal(*answer, method, what));
    return answer;
  }

  /// A call that answers with one object.
  template <class Decode>
  auto ask(Method method, std::string path, std::string body, std::string_view what, Decode decode)
      -> decltype(decode(std::declval<const nlohmann::json&>())) {
    IMEX_TRY(const ClientResponse answer, call(method, std::move(path), std::move(body), what));
    auto parsed = json::parse(answer.body, "body", {.bytes_max = 64U << 20U});
    if (!parsed) return fail(no_answer_of_the_api(std::move(parsed).error(), what));
    auto decoded = decode(*parsed);
    if (!decoded) return fail(no_answer_of_the_api(std::move(decoded).error(), what));
    return decoded;
  }

  template <class Decode>
  auto get(std::string path, std::string_view what, Decode decode) {
    return ask(Method::kGet, std::move(path), {}, what, decode);
  }

  /// All pages of a list. Objects that come or go meanwhile may be missed or seen twice, as with
  /// any paging; ids are unique in what is returned.
  template <class View>
  Result<std::vector<View>> list(std::string_view path, const std::string& query,
                                 std::string_view what,
                                 Result<View> (*decode)(const nlohmann::json&)) {
    std::vector<View> all;
    std::unordered_set<decltype(View::id)> seen;
    for (std::uint64_t page = 1;; ++page) {
      std::string target = fmt::format("{}?pageNumber={}&pageSize={}{}{}", path, page, kPageSize,
                                       query.empty() ? "" : "&", query);
      IMEX_TRY(const ClientResponse answer, call(Method::kGet, std::move(target), {}, what));
      auto more = add_page(answer, decode, seen, all);
      if (!more) return fail(no_answer_of_the_api(std::move(more).error(), what));
      if (!*more) return all;
      if (all.size() >= kListMax) {
        return fail(Errc::kResourceExhausted,
                    fmt::format("{}: more than {} objects", what, kListMax));
      }
    }
  }

  /// Whether there are pages behind this one.
  template <class View>
  static Result<bool> add_page(const ClientResponse& answer,
                               Result<View> (*decode)(const nlohmann::json&),
                               std::unordered_set<decltype(View::id)>& seen,
                               std::vector<View>& all) {
    IMEX_TRY(const auto parsed, json::parse(answer.body, "body", {.bytes_max = 64U << 20U}));
    if (!parsed.is_array()) {
      return fail(Errc::kInvalidArgument, fmt::format("want an array, not {}", parsed.type_name()));
    }
    for (const auto& element : parsed) {
      IMEX_TRY(View view, decode(element));
      if (seen.insert(view.id).second) all.push_back(std::move(view));
    }
    IMEX_TRY(const std::uint64_t total, total_of(answer));
    return all.size() < total && !parsed.empty();
  }

  Result<void> remove(std::string path, std::string_view what) {
    IMEX_CHECK_OK(call(Method::kDelete, std::move(path), {}, what));
    return {};
  }

  /// A write that only says what it would do.
  Result<Plan> plan(Method method, std::string path, std::string body, std::string_view what) {
    return ask(method, std::move(path) + "?dryRun=true", std::move(body), what, decode_plan);
  }
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::make(Options options) {
  if (options.url.empty() || options.org.empty()) {
    return fail(Errc::kInvalidArgument, "the controller's URL and an org are needed");
  }
  while (options.url.ends_with('/')) options.url.pop_back();
  auto impl = std::make_unique<Impl>();
  impl->base = fmt::format("/v2/org/{}/{}", net::http::percent_encoded(options.org),
                           net::http::percent_encoded(options.api));
  impl->timeout = options.timeout;
  net::http::ClientOptions http{.url = options.url, .bearer_token = options.token};
  http.tls.authority = options.authority;
  IMEX_TRY(impl->http, net::http::Client::make(std::move(http)));
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Result<TenantId> Client::tenant() {
  return impl_->get(std::string(kTenant), "get the tenant", decode_tenant);
}

Result<std::vector<SiteView>> Client::sites() {
  return impl_->list<SiteView>(kSites, {}, "list sites", decode_site);
}

Result<std::vector<InstanceTypeView>> Client::instance_types(const SiteId& site) {
  return impl_->list<InstanceTypeView>(kTypes, "siteId=" + site.to_string(), "list instance types",
                                       decode_instance_type);
}

// ---- Logical partitions ------------------------------------------------------------------------

Result<std::vector<PartitionView>> Client::partitions() {
  return impl_->list<PartitionView>(kPartitions, std::string(kWithUsage), "list partitions",
                                    decode_partition);
}

Result<PartitionView> Client::partition(const LogicalPartitionId& id) {
  return impl_->get(fmt::format("{}?{}", of_id(kPartitions, id), kWithUsage),
                    fmt::format("get partition {}", id.to_string()), decode_partition);
}

Result<std::vector<InterfaceView>> Client::interfaces(const LogicalPartitionId& id) {
  return impl_->list<InterfaceView>(kInterfaces, "nvLinkLogicalPartitionId=" + id.to_string(),
                                    fmt::format("list GPUs of partition {}", id.to_string()),
                                    decode_interface);
}

Result<PartitionView> Client::create_partition(const NewPartition& wanted) {
  return impl_->ask(Method::kPost, std::string(kPartitions), encode(wanted),
                    fmt::format("create partition '{}'", wanted.name), decode_partition);
}

Result<PartitionView> Client::update_partition(const LogicalPartitionId& id,
                                               const PartitionChange& change) {
  return impl_->ask(Method::kPatch, of_id(kPartitions, id), encode(change),
                    fmt::format("update partition {}", id.to_string()), decode_partition);
}

Result<void> Client::delete_partition(const LogicalPartitionId& id) {
  return impl_->remove(of_id(kPartitions, id), fmt::format("delete partition {}", id.to_string()));
}

// ---- VPCs --------------------------------------------------------------------------------------

Result<std::vector<VpcView>> Client::vpcs() {
  return impl_->list<VpcView>(kVpcs, {}, "list VPCs", decode_vpc);
}

Result<VpcView> Client::vpc(const VpcId& id) {
  return impl_->get(of_id(kVpcs, id), fmt::format("get VPC {}", id.to_string()), decode_vpc);
}

Result<VpcView> Client::create_vpc(const NewVpc& wanted) {
  return impl_->ask(Method::kPost, std::string(kVpcs), encode(wanted),
                    fmt::format("create VPC '{}'", wanted.name), decode_vpc);
}

Result<VpcView> Client::update_vpc(const VpcId& id, const VpcChange& change) {
  return impl_->ask(Method::kPatch, of_id(kVpcs, id), encode(change),
                    fmt::format("update VPC {}", id.to_string()), decode_vpc);
}

Result<void> Client::delete_vpc(const VpcId& id) {
  return impl_->remove(of_id(kVpcs, id), fmt::format("delete VPC {}", id.to_string()));
}

// ---- Instances ---------------------------------------------------------------------------------

Result<std::vector<InstanceView>> Client::instances() {
  return impl_->list<InstanceView>(kInstances, {}, "list instances", decode_instance);
}

Result<InstanceView> Client::instance(const InstanceId& id) {
  return impl_->get(of_id(kInstances, id), fmt::format("get instance {}", id.to_string()),
                    decode_instance);
}

Result<InstanceView> Client::create_instance(const NewInstance& wanted) {
  return impl_->ask(Method::kPost, std::string(kInstances), encode(wanted, 1),
                    fmt::format("create instance '{}'", wanted.name), decode_instance);
}

Result<std::vector<InstanceView>> Client::create_instances(const NewInstance& wanted,
                                                           std::uint32_t count) {
  const auto decode = [](const nlohmann::json& json) -> Result<std::vector<InstanceView>> {
    if (!json.is_array()) {
      return fail(Errc::kInvalidArgument, fmt::format("want an array, not {}", json.type_name()));
    }
    std::vector<InstanceView> all;
    for (const auto& element : json) {
      IMEX_TRY(InstanceView view, decode_instance(element));
      all.push_back(std::move(view));
    }
    return all;
  };
  return impl_->ask(Method::kPost, std::string(kBatch), encode(wanted, count),
                    fmt::format("create {} instances '{}'", count, wanted.name), decode);
}

Result<InstanceView> Client::update_instance(const InstanceId& id, const InstanceChange& change) {
  return impl_->ask(Method::kPatch, of_id(kInstances, id), encode(change),
                    fmt::format("update instance {}", id.to_string()), decode_instance);
}

Result<void> Client::delete_instance(const InstanceId& id) {
  return impl_->remove(of_id(kInstances, id), fmt::format("delete instance {}", id.to_string()));
}

// ---- Plans -------------------------------------------------------------------------------------

Result<Client::Plan> Client::plan_create(const NewPartition& wanted) {
  return impl_->plan(Method::kPost, std::string(kPartitions), encode(wanted),
                     fmt::format("plan partition '{}'", wanted.name));
}
Result<Client::Plan> Client::plan_update(const LogicalPartitionId& id,
                                         const PartitionChange& change) {
  return impl_->plan(Method::kPatch, of_id(kPartitions, id), encode(change),
                     fmt::format("plan an update of partition {}", id.to_string()));
}
Result<Client::Plan> Client::plan_delete(const LogicalPartitionId& id) {
  return impl_->plan(Method::kDelete, of_id(kPartitions, id), {},
                     fmt::format("plan the end of partition {}", id.to_string()));
}
Result<Client::Plan> Client::plan_create(const NewVpc& wanted) {
  return impl_->plan(Method::kPost, std::string(kVpcs), encode(wanted),
                     fmt::format("plan VPC '{}'", wanted.name));
}
Result<Client::Plan> Client::plan_update(const VpcId& id, const VpcChange& change) {
  return impl_->plan(Method::kPatch, of_id(kVpcs, id), encode(change),
                     fmt::format("plan an update of VPC {}", id.to_string()));
}
Result<Client::Plan> Client::plan_delete(const VpcId& id) {
  return impl_->plan(Method::kDelete, of_id(kVpcs, id), {},
                     fmt::format("plan the end of VPC {}", id.to_string()));
}
Result<Client::Plan> Client::plan_create(const NewInstance& wanted, std::uint32_t count) {
  return impl_->plan(Method::kPost, std::string(count > 1 ? kBatch : kInstances),
                     encode(wanted, count), fmt::format("plan instance '{}'", wanted.name));
}
Result<Client::Plan> Client::plan_update(const InstanceId& id, const InstanceChange& change) {
  return impl_->plan(Method::kPatch, of_id(kInstances, id), encode(change),
                     fmt::format("plan an update of instance {}", id.to_string()));
}
Result<Client::Plan> Client::plan_delete(const InstanceId& id) {
  return impl_->plan(Method::kDelete, of_id(kInstances, id), {},
                     fmt::format("plan the end of instance {}", id.to_string()));
}

}  // namespace imex::partition::client
