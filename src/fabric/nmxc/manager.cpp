// FabricManager in terms of calls to a controller.
#include <algorithm>

#include <fmt/format.h>

#include "answer.hpp"
#include "connector.hpp"
#include "fabric/check.hpp"
#include "fabric/nmxc.hpp"
#include "os/random.hpp"
#include "watcher.hpp"

namespace imex::fabric::nmxc {
namespace {

/// Changes between two readings of one snapshot settle within milliseconds; lasting disagreements
/// do not.
constexpr int kReadings = 3;
constexpr std::chrono::milliseconds kBetweenReadings(50);
constexpr std::uint32_t kMulticastStep = 4;

tl::unexpected<CallError> refuse_answer(Error error, std::string_view what) {
  return tl::unexpected(CallError{{.error = std::move(error).context(what)}, Next::kReturn});
}

ManagerProfile profile_of(Dialect dialect) {
  return {.protocol = dialect == Dialect::kDraft ? "nmx-c 1.4 (draft)" : "nmx-c 2.20",
          .name_bytes_max = kPartitionNameMax,
          .chooses_partition_id = true,
          .multicast = true,
          .resiliency = true,
          .empty_partitions = true,
          .immediate = true,
          .notifies = true};
}

void set_target(pb::PartitionId& id, std::string& name, const PartitionTarget& target) {
  id.set_partition_id(target.id);
  name = target.name;
}

Failure of_code(NmxCode code, std::string_view what) {
  const NmxCodeInfo info = nmx_code_info(code);
  return {.error = nmx_error(code, what), .code = code, .retry = info.retry};
}

/// Reads that belong together, on one session.
CallOutcome<Snapshot> read_snapshot(Session& session, const CallScope& scope) {
  constexpr std::string_view kWhat = "observe the domain";
  Snapshot snapshot;
  snapshot.domain_uuid = session.identity().domain_uuid;
  snapshot.instance = session.identity().instance;
  snapshot.endpoint = session.endpoint().text;

  auto state = session.call(kGetDomainStateInfo, pb::GetDomainStateInfoRequest{}, Access::kRead,
                            scope, "read the state of the domain");
  if (!state) return tl::unexpected(std::move(state).error());
  if (auto read = read_state(*state, snapshot); !read)
    return refuse_answer(std::move(read).error(), kWhat);

  pb::GetGpuInfoListRequest all_gpus;
  all_gpus.set_attr(pb::GPU_ATTR_ALL);
  auto gpus =
      session.call(kGetGpuInfoList, std::move(all_gpus), Access::kRead, scope, "list the GPUs");
  if (!gpus) return tl::unexpected(std::move(gpus).error());
  auto read_gpu_list = read_gpus(*gpus);
  if (!read_gpu_list) return refuse_answer(std::move(read_gpu_list).error(), kWhat);
  snapshot.gpus = *std::move(read_gpu_list);

  auto partitions = session.call(kGetPartitionInfoList, pb::GetPartitionInfoListRequest{},
                                 Access::kRead, scope, "list the partitions");
  if (!partitions) return tl::unexpected(std::move(partitions).error());
  auto read_partition_list = read_partitions(*partitions, snapshot.gpus);
  if (!read_partition_list) return refuse_answer(std::move(read_partition_list).error(), kWhat);
  snapshot.partitions = *std::move(read_partition_list);

  auto nodes = session.call(kGetComputeNodeInfoList, pb::GetComputeNodeInfoListRequest{},
                            Access::kRead, scope, "list the compute nodes");
  if (nodes) {
    auto read_node_list = read_nodes(*nodes);
    if (!read_node_list) return refuse_answer(std::move(read_node_list).error(), kWhat);
    snapshot.nodes = *std::move(read_node_list);
  } else if (nodes.error().failure.error.code != Errc::kUnsupported) {
    return tl::unexpected(
        std::move(nodes).error());  // a controller without this list is no worse off
  }

  if (auto finished = finish_snapshot(snapshot); !finished)
    return refuse_answer(std::move(finished).error(), kWhat);
  return snapshot;
}

class NmxcManager final : public FabricManager {
 public:
  NmxcManager(Options options, std::vector<Endpoint> endpoints, std::unique_ptr<Random> random)
      : random_(std::move(random)),
        connector_(std::move(options), std::move(endpoints)),
        watcher_(connector_) {}
  ~NmxcManager() override { connector_.shut_down(); }

  Outcome<DomainDescription> describe(const CallOptions& options) override;
  Outcome<Snapshot> observe(const CallOptions& options) override;
  Outcome<CreatedPartition> create_partition(const CreatePartition& wanted,
                                             const CallOptions& options) override;
  Outcome<void> update_partition(const PartitionTarget& target, const MembershipChange& change,
                                 const CallOptions& options) override;
  Outcome<void> delete_partition(const PartitionTarget& target,
                                 const CallOptions& options) override;
  void watch(EventHandler handler) override { watcher_.set_handler(std::move(handler)); }

 private:
  struct Members {
    ObservedPartition partition;
    std::vector<ObservedGpu> gpus;  ///< of the domain, where places are needed
  };
  [[nodiscard]] Outcome<Members> read_members(const PartitionTarget& target,
                                              const CallScope& scope);
  [[nodiscard]] Outcome<void> change_members(
      const Method<pb::UpdatePartitionRequest, pb::UpdatePartitionResponse>& method,
      const PartitionTarget& target, const Members& members, const std::vector<std::uint64_t>& uids,
      const CallScope& scope);
  [[nodiscard]] Outcome<CreatedPartition> find_existing(const CreatePartition& wanted,
                                                        Failure refused, const CallScope& scope);

  std::unique_ptr<Random> random_;  ///< behind options, where the caller gave none
  Connector connector_;
  Turn changing_;
  Watcher watcher_;  ///< last: its thread uses the rest
};

Outcome<DomainDescription> NmxcManager::describe(const CallOptions& options) {
  const CallScope scope = connector_.scope(options);
  return connector_.run(scope, [&](Session& session) -> CallOutcome<DomainDescription> {
    if (auto alive = session.hello(scope); !alive) return tl::unexpected(std::move(alive).error());
    auto state = session.call(kGetDomainStateInfo, pb::GetDomainStateInfoRequest{}, Access::kRead,
                              scope, "read the state of the domain");
    if (!state) return tl::unexpected(std::move(state).error());
    Snapshot part;
    if (auto read = read_state(*state, part); !read)
      return refuse_answer(std::move(read).error(), "describe the domain");
    DomainDescription description{.domain_uuid = session.identity().domain_uuid,
                                  .instance = session.identity().instance,
                                  .version = session.identity().version,
                                  .endpoint = session.endpoint().text,
                                  .control_plane = part.control_plane,
                                  .controller_health = part.controller_health,
                                  .status_text = std::move(part.status_text),
                                  .profile = profile_of(session.dialect())};
    auto limits = session.call(kGetDomainProperties, pb::GetDomainPropertiesRequest{},
                               Access::kRead, scope, "read the limits of the domain");
    if (limits)
      description.limits = read_limits(*limits);
    else if (limits.error().failure.error.code != Errc::kUnsupported)
      return tl::unexpected(std::move(limits).error());
    return description;
  });
}

Outcome<Snapshot> NmxcManager::observe(const CallOptions& options) {
  const CallScope scope = connector_.scope(options);
  for (int reading = 1;; ++reading) {
    bool one_life = false;
    auto snapshot = connector_.run(scope, [&](Session& session) {
      auto read = read_snapshot(session, scope);
      one_life = !session.retired();
      return read;
    });
    if (!snapshot || reading >= kReadings) {
      if (snapshot && !one_life) {
        return tl::unexpected(
            Failure{.error = {Errc::kUnavailable,
                              "observe the domain: the controller restarts over and over"},
                    .retry = NmxRetry::kBackOff});
      }
      return snapshot;
    }
    if (one_life && snapshot->disputed.empty()) return snapshot;
    // Without time for another reading, what was read stands, with its disputes.
    if (one_life && scope.deadline - std::chrono::steady_clock::now() < 2 * kBetweenReadings)
      return snapshot;
    if (!sleep_for(kBetweenReadings, scope))
      return tl::unexpected(scope.check("observe the domain").error());
  }
}

Outcome<CreatedPartition> NmxcManager::create_partition(const CreatePartition& wanted,
                                                        const CallOptions& options) {
  if (auto fits = check_wanted(wanted, profile_of(Dialect::kCurrent)); !fits)
    return tl::unexpected(std::move(fits).error());
  const CallScope scope = connector_.scope(options);
  const std::string what =
      fmt::format("create partition '{}' of {} GPUs", wanted.name, wanted.gpu_uids.size());
  auto turn = changing_.take(scope, what);
  if (!turn) return tl::unexpected(std::move(turn).error());

  pb::CreatePartitionRequest request;
  request.set_name(wanted.name);
  for (const std::uint64_t uid : wanted.gpu_uids) request.add_gpu_resource_id()->set_gpu_uid(uid);
  if (wanted.id != 0) request.mutable_partition_id()->set_partition_id(wanted.id);
  const std::uint32_t groups = wanted.multicast_groups / kMulticastStep * kMulticastStep;
  if (groups != 0 || wanted.resiliency != ResiliencyMode::kDefault) {
    request.mutable_attr()->set_multicast_groups_limit(groups);
    request.mutable_attr()->set_resiliency_mode(static_cast<pb::ResiliencyMode>(wanted.resiliency));
  }
  auto answer = connector_.run(scope, [&](Session& session) {
    return session.call(kCreatePartition, request, Access::kChange, scope, what);
  });
  if (!answer) {
    if (answer.error().code == NmxCode::kPartitionExists)
      return find_existing(wanted, std::move(answer).error(), scope);
    return tl::unexpected(std::move(answer).error());
  }
  const std::uint32_t id = answer->partition_id().partition_id();
  if (id == 0) {
    return tl::unexpected(
        Failure{.error = {Errc::kDataLoss, fmt::format("{}: success without a partition id", what),
                          "observe: the partition may be there"},
                .effect = Effect::kUnknown});
  }
  return CreatedPartition{.id = id};
}

/// The controller says that it stands as wanted: then its id is to be found.
Outcome<CreatedPartition> NmxcManager::find_existing(const CreatePartition& wanted, Failure refused,
                                                     const CallScope& scope) {
  const auto members = read_members({.id = 0, .name = wanted.name}, scope);
  const std::vector<std::uint64_t> uids = apply({.add = wanted.gpu_uids}, {});
  if (!members || members->partition.gpu_uids != uids) return tl::unexpected(std::move(refused));
  return CreatedPartition{.id = members->partition.id, .already_there = true};
}

Outcome<NmxcManager::Members> NmxcManager::read_members(const PartitionTarget& target,
                                                        const CallScope& scope) {
  const std::string what = fmt::format("read {}", describe_target(target));
  auto members = connector_.run(scope, [&](Session& session) -> CallOutcome<Members> {
    pb::GetPartitionInfoListRequest request;
    if (target.id != 0)
      request.add_partition_id_list()->set_partition_id(target.id);
    else
      request.add_partition_name_list(target.name);
    auto answer =
        session.call(kGetPartitionInfoList, std::move(request), Access::kRead, scope, what);
    if (!answer) return tl::unexpected(std::move(answer).error());
    Members found;
    const bool by_location =
        std::any_of(answer->partition_info_list().begin(), answer->partition_info_list().end(),
                    [](const pb::PartitionInfo& info) {
                      return info.partition_type() == pb::PARTITION_TYPE_LOCATION_BASED;
                    });
    if (by_location) {
      pb::GetGpuInfoListRequest all_gpus;
      all_gpus.set_attr(pb::GPU_ATTR_ALL);
      auto gpus =
          session.call(kGetGpuInfoList, std::move(all_gpus), Access::kRead, scope, "list the GPUs");
      if (!gpus) return tl::unexpected(std::move(gpus).error());
      auto read = read_gpus(*gpus);
      if (!read) return refuse_answer(std::move(read).error(), what);
      found.gpus = *std::move(read);
    }
    auto partitions = read_partitions(*answer, found.gpus);
    if (!partitions) return refuse_answer(std::move(partitions).error(), what);
    const auto at = std::find_if(
        partitions->begin(), partitions->end(), [&target](const ObservedPartition& partition) {
          return target.id != 0 ? partition.id == target.id : partition.name == target.name;
        });
    if (at == partitions->end())
      return tl::unexpected(CallError{of_code(
          target.id != 0 ? NmxCode::kPartitionIdNotInUse : NmxCode::kPartitionNameNotInUse, what)});
    found.partition = std::move(*at);
    return found;
  });
  if (!members) return members;
  std::vector<std::uint64_t>& uids = members->partition.gpu_uids;
  std::sort(uids.begin(), uids.end());
  if (target.id != 0 && !target.name.empty() && members->partition.name != target.name)
    return tl::unexpected(of_code(NmxCode::kPartitionIdNameMismatch, what));
  return members;
}

Outcome<void> NmxcManager::change_members(
    const Method<pb::UpdatePartitionRequest, pb::UpdatePartitionResponse>& method,
    const PartitionTarget& target, const Members& members, const std::vector<std::uint64_t>& uids,
    const CallScope& scope) {
  if (uids.empty()) return {};
  const std::string what =
      fmt::format("{} {} GPUs in {}", &method == &kAddGpusToPartition ? "add" : "remove",
                  uids.size(), describe_target(target));
  pb::UpdatePartitionRequest request;
  set_target(*request.mutable_partition_id(), *request.mutable_name(), target);
  request.set_reroute(true);
  // The default partition takes uids whatever its kind.
  const bool by_location = members.partition.kind == PartitionKind::kByLocation &&
                           members.partition.id != kDefaultPartitionId;
  for (const std::uint64_t uid : uids) {
    if (!by_location) {
      request.add_gpu_uid(uid);
      continue;
    }
    const auto at = std::find_if(members.gpus.begin(), members.gpus.end(),
                                 [uid](const ObservedGpu& gpu) { return gpu.uid == uid; });
    if (at == members.gpus.end())
      return tl::unexpected(
          of_code(NmxCode::kResourceBad, fmt::format("{}: GPU {:#x}", what, uid)));
    pb::GpuLocation& location = *request.add_location_list();
    location.set_gpu_id(at->module_id);
    location.mutable_loc()->set_chassis_id(at->place.chassis_id);
    location.mutable_loc()->set_slot_id(at->place.slot_id);
    location.mutable_loc()->set_host_id(at->place.host_id);
  }
  auto answer = connector_.run(scope, [&](Session& session) {
    return session.call(method, request, Access::kChange, scope, what);
  });
  if (!answer) return tl::unexpected(std::move(answer).error());
  return {};
}

Outcome<void> NmxcManager::update_partition(const PartitionTarget& target,
                                            const MembershipChange& change,
                                            const CallOptions& options) {
  if (auto fits = check_target(target); !fits) return fits;
  if (auto fits = check_change(change); !fits) return fits;
  const CallScope scope = connector_.scope(options);
  auto turn = changing_.take(scope, fmt::format("update {}", describe_target(target)));
  if (!turn) return tl::unexpected(std::move(turn).error());
  auto members = read_members(target, scope);
  if (!members) return tl::unexpected(std::move(members).error());

  const MembershipChange rest = reduce(change, members->partition.gpu_uids);
  if (auto removed = change_members(kRemoveGpusFromPartition, target, *members, rest.remove, scope);
      !removed)
    return removed;
  auto added = change_members(kAddGpusToPartition, target, *members, rest.add, scope);
  if (!added && added.error().effect == Effect::kNone && !rest.remove.empty())
    added.error().effect = Effect::kPartial;
  return added;
}

Outcome<void> NmxcManager::delete_partition(const PartitionTarget& target,
                                            const CallOptions& options) {
  if (auto fits = check_target(target); !fits) return fits;
  const CallScope scope = connector_.scope(options);
  const std::string what = fmt::format("delete {}", describe_target(target));
  auto turn = changing_.take(scope, what);
  if (!turn) return tl::unexpected(std::move(turn).error());
  pb::DeletePartitionRequest request;
  set_target(*request.mutable_partition_id(), *request.mutable_name(), target);
  auto answer = connector_.run(scope, [&](Session& session) {
    return session.call(kDeletePartition, request, Access::kChange, scope, what);
  });
  if (!answer) return tl::unexpected(std::move(answer).error());
  return {};
}

Result<std::vector<Endpoint>> parse_endpoints(const Options& options) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : options.endpoints) {
    IMEX_TRY(Endpoint endpoint, parse_endpoint(text));
    endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
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
  for (std::size_t i = 0; i < options.endpoints.size(); ++i) {
    if (auto endpoint = parse_endpoint(options.endpoints[i]); !endpoint)
      say(endpoint.error().message);
    if (std::count(options.endpoints.begin(), options.endpoints.end(), options.endpoints[i]) > 1 &&
        std::find(options.endpoints.begin(), options.endpoints.end(), options.endpoints[i]) ==
            options.endpoints.begin() + static_cast<std::ptrdiff_t>(i))
      say(fmt::format("endpoint '{}' is listed twice", options.endpoints[i]));
  }
  if (options.gateway_id.empty()) say("the gateway id is empty: controllers refuse that");
  if (options.gateway_id.size() > kPartitionNameMax) say("the gateway id is longer than 255 bytes");
  const Tls& tls = options.tls;
  const bool certificate = !tls.certificate_file.empty() || !tls.certificate.empty();
  const bool key = !tls.key_file.empty() || !tls.key.empty();
  if (certificate != key)
    say(certificate ? "a client certificate without its key"
                    : "a client key without its certificate");
  if (options.domain_uuid && options.domain_uuid->is_nil()) say("the domain UUID is all zeros");
  if (options.connect_timeout.count() <= 0) say("connect timeout is not above 0");
  if (options.heartbeat.count() <= 0) say("heartbeat is not above 0");
  if (options.backoff.first.count() <= 0 || options.backoff.max < options.backoff.first)
    say("back-off is not 0 < first <= max");
  if (wrong.empty()) return {};
  return fail(Errc::kInvalidArgument, fmt::format("fabric controller: {}", wrong));
}

Result<std::unique_ptr<FabricManager>> open(Options options) {
  IMEX_CHECK_OK(validate(options));
  IMEX_TRY(auto endpoints, parse_endpoints(options));
  const bool tls = std::any_of(endpoints.begin(), endpoints.end(),
                               [](const Endpoint& endpoint) { return endpoint.tls; });
  if (tls) IMEX_CHECK_OK(read_material(options.tls));
  std::unique_ptr<Random> random;
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
  return std::make_unique<NmxcManager>(std::move(options), std::move(endpoints), std::move(random));
}

}  // namespace imex::fabric::nmxc
