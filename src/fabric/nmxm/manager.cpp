// FabricManager in terms of an NMX-M.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "api.hpp"
#include "domain_reader.hpp"
#include "fabric/check.hpp"
#include "fabric/nmxm.hpp"
#include "lookout.hpp"
#include "net/http/message.hpp"
#include "os/random.hpp"

namespace imex::fabric::nmxm {
namespace {

constexpr std::size_t kNameMax = 244;
/// Lists trail each other; what still differs after so many readings is told as disputed.
constexpr int kReadings = 3;
constexpr std::chrono::milliseconds kBetweenReadings(50);
/// How often a completed create is looked for in the lists, one operation_poll apart.
constexpr int kLooksForCreated = 5;

ManagerProfile rest_profile() {
  return {.protocol = "nmx-m v1", .name_bytes_max = kNameMax, .empty_partitions = true};
}

Failure of_code(NmxCode code, std::string_view what) {
  const NmxCodeInfo info = nmx_code_info(code);
  return {.error = nmx_error(code, what), .code = code, .retry = info.retry};
}

class NmxmManager final : public FabricManager {
 public:
  NmxmManager(Options options, std::unique_ptr<Random> random, std::unique_ptr<Transport> transport)
      : random_(std::move(random)),
        options_(std::move(options)),
        api_(options_, std::move(transport)),
        reader_(options_.domain_uuid),
        lookout_([this](const CallScope& scope) { return observe_within(scope); },
                 options_.look_interval, 2 * options_.request_timeout) {}
  ~NmxmManager() override { shutdown_.request_stop(); }

  Outcome<DomainDescription> describe(const CallOptions& options) override;
  Outcome<Snapshot> observe(const CallOptions& options) override {
    return observe_within(scope(options));
  }
  Outcome<CreatedPartition> create_partition(const CreatePartition& wanted,
                                             const CallOptions& options) override;
  Outcome<void> update_partition(const PartitionTarget& target, const MembershipChange& change,
                                 const CallOptions& options) override;
  Outcome<void> delete_partition(const PartitionTarget& target,
                                 const CallOptions& options) override;
  void watch(EventHandler handler) override { lookout_.set_handler(std::move(handler)); }

 private:
  [[nodiscard]] CallScope scope(const CallOptions& options) const {
    return {
        .deadline = options.deadline, .cancel = options.cancel, .shutdown = shutdown_.get_token()};
  }
  [[nodiscard]] Outcome<Snapshot> observe_within(const CallScope& scope);
  /// All lists, once.
  [[nodiscard]] Outcome<DomainView> look(const CallScope& scope);
  [[nodiscard]] Outcome<OwnPartition> find(const DomainView& view, const PartitionTarget& target,
                                           std::string_view what);
  [[nodiscard]] Outcome<Member> member_for(const DomainView& view, std::uint64_t uid,
                                           PartitionKind kind, std::string_view what) const;
  [[nodiscard]] Outcome<std::optional<std::uint32_t>> find_created(const CreatePartition& wanted,
                                                                   const CallScope& scope);

  std::unique_ptr<Random> random_;  ///< behind options_, where the caller gave none
  const Options options_;
  std::stop_source shutdown_;
  Api api_;
  Turn changing_;
  Mutex mutex_;
  DomainReader reader_ IMEX_GUARDED_BY(mutex_);
  Lookout lookout_;  ///< last: its thread uses the rest
};

Outcome<DomainView> NmxmManager::look(const CallScope& scope) {
  DomainLists lists;
  auto gpus = api_.gpus(scope);
  if (!gpus) return tl::unexpected(std::move(gpus).error());
  lists.gpus = *std::move(gpus);
  auto partitions = api_.partitions(scope);
  if (!partitions) return tl::unexpected(std::move(partitions).error());
  lists.partitions = *std::move(partitions);
  // Not needed to change anything, and not everywhere served.
  const auto optional = [](const Failure& failure) {
    return failure.error.code == Errc::kNotFound || failure.error.code == Errc::kUnsupported;
  };
  if (auto nodes = api_.nodes(scope))
    lists.nodes = *std::move(nodes);
  else if (!optional(nodes.error()))
    return tl::unexpected(std::move(nodes).error());
  if (auto services = api_.services(scope))
    lists.services = *std::move(services);
  else if (!optional(services.error()))
    return tl::unexpected(std::move(services).error());

  const MutexLock lock(mutex_);
  auto view = reader_.read(std::move(lists));
  if (!view)
    return tl::unexpected(Failure{.error = std::move(view).error().context("observe the domain")});
  if (view->gpus.empty() && view->snapshot.control_plane == ControlPlaneState::kUndefined) {
    return tl::unexpected(Failure{
        .error = {Errc::kNotFound,
                  fmt::format("NMX-M knows no domain {}", options_.domain_uuid.to_string()),
                  "register its controller as a service of the NMX-M, or correct the domain UUID"},
        .retry = NmxRetry::kBackOff});
  }
  view->snapshot.endpoint = options_.endpoints.front();
  return *std::move(view);
}

Outcome<DomainDescription> NmxmManager::describe(const CallOptions& options) {
  auto view = look(scope(options));
  if (!view) return tl::unexpected(std::move(view).error());
  const Snapshot& snapshot = view->snapshot;
  return DomainDescription{.domain_uuid = options_.domain_uuid,
                           .instance = snapshot.instance,
                           .version = view->version,
                           .endpoint = snapshot.endpoint,
                           .control_plane = snapshot.control_plane,
                           .controller_health = snapshot.controller_health,
                           .status_text = snapshot.status_text,
                           .profile = rest_profile()};
}

Outcome<Snapshot> NmxmManager::observe_within(const CallScope& scope) {
  for (int reading = 1;; ++reading) {
    auto view = look(scope);
    if (!view) return tl::unexpected(std::move(view).error());
    const bool no_time = scope.deadline - std::chrono::steady_clock::now() < 2 * kBetweenReadings;
    if (view->snapshot.disputed.empty() || reading >= kReadings || no_time)
      return std::move(view->snapshot);
    if (!sleep_for(kBetweenReadings, scope))
      return tl::unexpected(scope.check("observe the domain").error());
  }
}

Outcome<OwnPartition> NmxmManager::find(const DomainView& view, const PartitionTarget& target,
                                        std::string_view what) {
  const OwnPartition* own = view.find(target);
  if (own == nullptr)
    return tl::unexpected(of_code(
        target.id != 0 ? NmxCode::kPartitionIdNotInUse : NmxCode::kPartitionNameNotInUse, what));
  if (target.id != 0 && !target.name.empty() && own->entry.partition.name != target.name)
    return tl::unexpected(of_code(NmxCode::kPartitionIdNameMismatch, what));
  return *own;
}

Outcome<Member> NmxmManager::member_for(const DomainView& view, std::uint64_t uid,
                                        PartitionKind kind, std::string_view what) const {
  const auto at = view.gpus.find(uid);
  if (at == view.gpus.end())
    return tl::unexpected(of_code(NmxCode::kResourceBad, fmt::format("{}: GPU {:#x}", what, uid)));
  if (kind != PartitionKind::kByLocation) return Member{.entity = at->second.entity};
  const ObservedGpu& gpu = at->second.gpu;
  return Member{.domain = options_.domain_uuid,
                .chassis_id = gpu.place.chassis_id,
                .slot_id = gpu.place.slot_id,
                .host_id = gpu.place.host_id,
                .device_id = gpu.module_id};
}

Outcome<CreatedPartition> NmxmManager::create_partition(const CreatePartition& wanted,
                                                        const CallOptions& options) {
  if (auto fits = check_wanted(wanted, rest_profile()); !fits)
    return tl::unexpected(std::move(fits).error());
  const CallScope scope = this->scope(options);
  const std::string what =
      fmt::format("create partition '{}' of {} GPUs", wanted.name, wanted.gpu_uids.size());
  auto turn = changing_.take(scope, what);
  if (!turn) return tl::unexpected(std::move(turn).error());
  const auto view = look(scope);
  if (!view) return tl::unexpected(view.error());
  std::vector<Member> members;
  for (const std::uint64_t uid : apply({.add = wanted.gpu_uids}, {})) {
    auto member = member_for(*view, uid, PartitionKind::kByUid, what);
    if (!member) return tl::unexpected(std::move(member).error());
    members.push_back(*std::move(member));
  }
  const auto done = api_.change({.verb = Verb::kPost,
                                 .path = "/nmx/v1/partitions",
                                 .body = create_body(wanted.name, members)},
                                "name " + wanted.name, scope, what);
  if (!done) {
    if (done.error().error.code != Errc::kAlreadyExists || done.error().effect != Effect::kNone)
      return tl::unexpected(done.error());
    // Refused with 409: perhaps because it stands already, just so.
    const auto existing = find_created(wanted, scope.within(std::chrono::seconds(1)));
    if (existing && *existing) return CreatedPartition{.id = **existing, .already_there = true};
    return tl::unexpected(done.error());
  }
  for (int looks = 0; looks < kLooksForCreated; ++looks) {
    if (looks > 0 && !sleep_for(options_.operation_poll, scope)) break;
    const auto id = find_created(wanted, scope);
    if (id && *id) return CreatedPartition{.id = **id};
  }
  return tl::unexpected(Failure{
      .error = {Errc::kUnavailable, fmt::format("{}: completed, but no list shows it yet", what),
                "neither create it again nor delete it: observe until it shows"},
      .effect = Effect::kUnknown,
      .retry = NmxRetry::kBackOff});
}

Outcome<std::optional<std::uint32_t>> NmxmManager::find_created(const CreatePartition& wanted,
                                                                const CallScope& scope) {
  auto view = look(scope);
  if (!view) return tl::unexpected(std::move(view).error());
  const std::vector<std::uint64_t> uids = apply({.add = wanted.gpu_uids}, {});
  for (const OwnPartition& own : view->partitions) {
    if (own.entry.partition.name == wanted.name && own.complete &&
        own.entry.partition.gpu_uids == uids)
      return std::optional<std::uint32_t>(own.entry.partition.id);
  }
  return std::optional<std::uint32_t>();
}

Outcome<void> NmxmManager::update_partition(const PartitionTarget& target,
                                            const MembershipChange& change,
                                            const CallOptions& options) {
  if (auto fits = check_target(target); !fits) return fits;
  if (auto fits = check_change(change); !fits) return fits;
  const CallScope scope = this->scope(options);
  const std::string what = fmt::format("update {}", describe_target(target));
  auto turn = changing_.take(scope, what);
  if (!turn) return tl::unexpected(std::move(turn).error());
  // The request carries the whole membership, so it is read now; a member that only NMX-M knows
  // stays as it names it.
  const auto view = look(scope);
  if (!view) return tl::unexpected(view.error());
  const auto own = find(*view, target, what);
  if (!own) return tl::unexpected(own.error());
  const MembershipChange rest = reduce(change, own->entry.partition.gpu_uids);
  if (rest.remove.empty() && rest.add.empty()) return {};

  std::vector<Member> members = own->entry.members;
  const PartitionKind kind = own->entry.partition.kind;
  for (const std::uint64_t uid : rest.remove) {
    const auto gone = member_for(*view, uid, kind, what);
    if (!gone) return tl::unexpected(gone.error());
    std::erase_if(members, [&gone](const Member& member) {
      return member.entity == gone->entity && member.chassis_id == gone->chassis_id &&
             member.slot_id == gone->slot_id && member.host_id == gone->host_id &&
             member.device_id == gone->device_id;
    });
  }
  for (const std::uint64_t uid : rest.add) {
    auto member = member_for(*view, uid, kind, what);
    if (!member) return tl::unexpected(std::move(member).error());
    members.push_back(*std::move(member));
  }
  const std::string& entity = own->entry.entity;
  return api_.change(
      {.verb = Verb::kPut,
       .path = fmt::format("/nmx/v1/partitions/{}", net::http::percent_encoded(entity)),
       .body = update_body(members)},
      "partition " + entity, scope, what);
}

Outcome<void> NmxmManager::delete_partition(const PartitionTarget& target,
                                            const CallOptions& options) {
  if (auto fits = check_target(target); !fits) return fits;
  const CallScope scope = this->scope(options);
  const std::string what = fmt::format("delete {}", describe_target(target));
  auto turn = changing_.take(scope, what);
  if (!turn) return tl::unexpected(std::move(turn).error());
  const auto view = look(scope);
  if (!view) return tl::unexpected(view.error());
  const auto own = find(*view, target, what);
  if (!own) return tl::unexpected(own.error());
  const std::string& entity = own->entry.entity;
  return api_.change(
      {.verb = Verb::kDelete,
       .path = fmt::format("/nmx/v1/partitions/{}", net::http::percent_encoded(entity))},
      "partition " + entity, scope, what);
}

void complete_options(Options& options, std::unique_ptr<Random>& random) {
  if (options.random == nullptr) {
    random = std::make_unique<os::SystemRandom>();
    options.random = random.get();
  }
  if (!options.clock)
    options.clock = [] {
      return Time{
          std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch())
              .count()};
    };
}

}  // namespace

Result<void> validate(const Options& options) {
  constexpr std::size_t kEndpointsMax = 16;
  std::string wrong;
  const auto say = [&wrong](std::string_view text) {
    wrong += fmt::format("{}{}", wrong.empty() ? "" : "; ", text);
  };
  if (options.endpoints.empty()) say("no endpoint");
  if (options.endpoints.size() > kEndpointsMax)
    say(fmt::format("{} endpoints, at most {}", options.endpoints.size(), kEndpointsMax));
  for (const std::string& url : options.endpoints)
    if (!url.starts_with("https://") && !url.starts_with("http://"))
      say(fmt::format("endpoint '{}' is neither http:// nor https://", url));
  if (options.tls.certificate_file.empty() != options.tls.key_file.empty())
    say(options.tls.key_file.empty() ? "a client certificate without its key"
                                     : "a client key without its certificate");
  if (options.user.empty() && !options.password.empty()) say("a password without a user");
  if (options.domain_uuid.is_nil()) say("no domain UUID");
  if (options.request_timeout.count() <= 0) say("request timeout is not above 0");
  if (options.operation_poll.count() <= 0) say("operation poll interval is not above 0");
  if (options.look_interval.count() <= 0) say("look interval is not above 0");
  if (options.backoff.first.count() <= 0 || options.backoff.max < options.backoff.first)
    say("back-off is not 0 < first <= max");
  if (wrong.empty()) return {};
  return fail(Errc::kInvalidArgument, fmt::format("NMX-M: {}", wrong));
}

Result<std::unique_ptr<FabricManager>> open(Options options) {
  IMEX_CHECK_OK(validate(options));
  std::unique_ptr<Random> random;
  complete_options(options, random);
  IMEX_TRY(auto transport, make_http_transport(options));
  return std::make_unique<NmxmManager>(std::move(options), std::move(random), std::move(transport));
}

Outcome<std::vector<Uuid>> list_domains(Options options, const CallOptions& call) {
  const auto refuse = [](Error error) {
    return tl::unexpected(Failure{.error = std::move(error)});
  };
  options.domain_uuid.bytes[0] = std::byte{1};  // not needed here, but must not be nil
  if (auto valid = validate(options); !valid) return refuse(std::move(valid).error());
  std::unique_ptr<Random> random;
  complete_options(options, random);
  auto transport = make_http_transport(options);
  if (!transport) return refuse(std::move(transport).error());
  Api api(options, *std::move(transport));
  const CallScope scope{.deadline = call.deadline, .cancel = call.cancel};
  std::set<Uuid> domains;
  auto services = api.services(scope);
  if (!services && services.error().error.code != Errc::kNotFound)
    return tl::unexpected(std::move(services).error());
  if (services)
    for (const ServiceEntry& service : *services)
      if (service.controller && service.domain) domains.insert(*service.domain);
  auto gpus = api.all_gpus(scope);
  if (!gpus) return tl::unexpected(std::move(gpus).error());
  for (const GpuEntry& gpu : *gpus)
    if (gpu.domain) domains.insert(*gpu.domain);
  return std::vector<Uuid>(domains.begin(), domains.end());
}

}  // namespace imex::fabric::nmxm
