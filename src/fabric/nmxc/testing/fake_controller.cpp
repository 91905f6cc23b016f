#include "fake_controller.hpp"

#include <thread>

#include <fmt/format.h>

namespace imex::fabric::nmxc::testing {
namespace {

constexpr std::chrono::milliseconds kPoll(2);

template <class Notification>
Notification first_message(const std::string& domain, const std::string& instance) {
  Notification first;
  pb::ServerHeader& header = *first.mutable_subscription_response()->mutable_server_header();
  header.set_domain_uuid(domain);
  header.set_app_uuid(instance);
  header.set_return_code(pb::NMX_ST_SUCCESS);
  return first;
}

}  // namespace

template <class Request, class Answer, class Apply>
grpc::Status FakeController::serve(const char* method, grpc::ServerContext& context,
                                   const Request& request, Answer& answer, Apply apply) {
  const std::optional<Fault> fault = take_fault(method);
  if (fault && fault->status) return *fault->status;
  if (fault && fault->hang && !fault->apply) {
    hang(context);
    return grpc::Status::CANCELLED;
  }
  {
    const MutexLock lock(mutex_);
    if (request.gateway_id().empty()) {
      fill_header(*answer.mutable_server_header());
      answer.mutable_server_header()->set_return_code(pb::NMX_ST_BADPARAM);
      return grpc::Status::OK;
    }
    const std::string key =
        options_.session == SessionMode::kConnection ? context.peer() : request.gateway_id();
    const bool is_hello = std::string_view(method) == "Hello";
    NmxCode code = NmxCode::kSuccess;
    if (!is_hello && options_.session != SessionMode::kOff && !known_.contains(key)) {
      code = NmxCode::kConnectionNotValid;
    } else if (!fault || !fault->code || fault->apply) {
      code = apply();
      if (is_hello && code == NmxCode::kSuccess) known_.insert(key);
    }
    if (fault && fault->code) code = *fault->code;
    fill_header(*answer.mutable_server_header());
    answer.mutable_server_header()->set_return_code(static_cast<pb::StReturnCode>(code));
  }
  if (fault && fault->hang) hang(context);
  if (fault && fault->no_header) answer.clear_server_header();
  if (fault && fault->spoil) fault->spoil(answer);
  return grpc::Status::OK;
}

template <class Notification>
grpc::Status FakeController::stream(grpc::ServerContext& context,
                                    grpc::ServerWriter<Notification>& writer, bool heartbeats) {
  const std::optional<Fault> fault = take_fault("Subscribe");
  if (fault && fault->status) return *fault->status;
  if (!options_.subscribe) return {grpc::StatusCode::UNIMPLEMENTED, "no Subscribe here"};
  std::uint64_t box = 0;
  Notification first;
  {
    const MutexLock lock(mutex_);
    box = ++next_outbox_;
    outboxes_[box];
    first = first_message<Notification>(options_.domain, options_.instance);
    if (fault && fault->code)
      first.mutable_subscription_response()->mutable_server_header()->set_return_code(
          static_cast<pb::StReturnCode>(*fault->code));
  }
  writer.Write(first);
  ++open_streams_;
  auto next_beat = std::chrono::steady_clock::now() + options_.heartbeat;
  while (!context.IsCancelled() && !stopping_ && !end_streams_) {
    std::deque<pb::ServerNotification> out;
    {
      const MutexLock lock(mutex_);
      out.swap(outboxes_[box]);
      if constexpr (std::is_same_v<Notification, pb::ServerNotification>) {
        if (heartbeats && !silent_ && std::chrono::steady_clock::now() >= next_beat) {
          next_beat += options_.heartbeat;
          pb::ServerNotification beat;
          fill_header(*beat.mutable_domain_state_info()->mutable_server_header());
          beat.mutable_domain_state_info()->set_control_plane_state(state_);
          out.push_back(std::move(beat));
        }
      }
    }
    for (const pb::ServerNotification& notification : out) {
      Notification as_sent;
      as_sent.ParseFromString(notification.SerializeAsString());
      writer.Write(as_sent);
    }
    std::this_thread::sleep_for(kPoll);
  }
  const MutexLock lock(mutex_);
  outboxes_.erase(box);
  --open_streams_;
  return grpc::Status::OK;
}

// What both services have, in terms of the model. `Base` is the generated service.
#define IMEX_FAKE_METHOD(method, request_type, answer_type, ...)                         \
  grpc::Status method(grpc::ServerContext* context, const pb::request_type* request,     \
                      pb::answer_type* answer) override {                                \
    return owner_.serve(#method, *context, *request, *answer,                            \
                        [&]() IMEX_REQUIRES(owner_.mutex_) -> NmxCode { __VA_ARGS__; }); \
  }
#define IMEX_FAKE_METHODS(major)                                                                   \
  IMEX_FAKE_METHOD(Hello, ClientHello, ServerHello, return owner_.hello(*request, *answer, major)) \
  IMEX_FAKE_METHOD(GetDomainStateInfo, GetDomainStateInfoRequest, DomainStateInfo,                 \
                   answer->set_control_plane_state(owner_.state_);                                 \
                   answer->set_available_multicast_groups(1'008);                                  \
                   answer->set_config_status_description("fine");                                  \
                   answer->set_nmx_controller_health(pb::NMX_CONTROLLER_HEALTH_HEALTHY);           \
                   return NmxCode::kSuccess)                                                       \
  IMEX_FAKE_METHOD(GetDomainProperties, GetDomainPropertiesRequest, DomainProperties,              \
                   answer->set_max_compute_nodes(18);                                              \
                   answer->set_max_multicast_groups(1'024); return NmxCode::kSuccess)              \
  IMEX_FAKE_METHOD(GetGpuInfoList, GetGpuInfoListRequest, GetGpuInfoListResponse,                  \
                   return owner_.gpus(*answer))                                                    \
  IMEX_FAKE_METHOD(GetComputeNodeInfoList, GetComputeNodeInfoListRequest,                          \
                   GetComputeNodeInfoListResponse, return owner_.nodes(*answer))                   \
  IMEX_FAKE_METHOD(GetPartitionInfoList, GetPartitionInfoListRequest,                              \
                   GetPartitionInfoListResponse, return owner_.partitions(*request, *answer))      \
  IMEX_FAKE_METHOD(CreatePartition, CreatePartitionRequest, CreatePartitionResponse,               \
                   return owner_.create(*request, *answer))                                        \
  IMEX_FAKE_METHOD(DeletePartition, DeletePartitionRequest, DeletePartitionResponse,               \
                   return owner_.remove(*request))                                                 \
  IMEX_FAKE_METHOD(AddGpusToPartition, UpdatePartitionRequest, UpdatePartitionResponse,            \
                   return owner_.update(*request, true))                                           \
  IMEX_FAKE_METHOD(RemoveGpusFromPartition, UpdatePartitionRequest, UpdatePartitionResponse,       \
                   return owner_.update(*request, false))

class FakeController::CurrentService final : public pb::NMX_Controller::Service {
 public:
  explicit CurrentService(FakeController& owner) : owner_(owner) {}
  IMEX_FAKE_METHODS(2)
  grpc::Status Subscribe(grpc::ServerContext* context, const pb::SubscribeRequest* request,
                         grpc::ServerWriter<pb::ServerNotification>* writer) override {
    owner_.asked_heartbeat_ = request->heart_beat_rate();
    return owner_.stream(*context, *writer, request->heart_beat_rate() != 0);
  }

 private:
  FakeController& owner_;
};

class FakeController::DraftService final : public pb::NMXController::Service {
 public:
  explicit DraftService(FakeController& owner) : owner_(owner) {}
  IMEX_FAKE_METHODS(1)
  grpc::Status Subscribe(grpc::ServerContext* context, const pb::DraftSubscribeRequest* /*request*/,
                         grpc::ServerWriter<pb::DraftServerNotification>* writer) override {
    return owner_.stream(*context, *writer, false);
  }

 private:
  FakeController& owner_;
};
#undef IMEX_FAKE_METHODS
#undef IMEX_FAKE_METHOD

FakeController::FakeController(Options options) : options_(std::move(options)) {
  {
    // Two trays of four GPUs, all in the default partition but the last tray's.
    const MutexLock lock(mutex_);
    Partition& standard = partitions_[32'766];
    standard.name = "Default Partition";
    standard.kind = pb::PARTITION_TYPE_LOCATION_BASED;
    for (std::uint32_t i = 0; i < 8; ++i) {
      gpus_.push_back({kFirstUid + i, i / 4, i % 4 + 1});
      if (i < 4) standard.members.insert(kFirstUid + i);
    }
  }
  start();
}

FakeController::~FakeController() { stop(); }

void FakeController::start() {
  stopping_ = false;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(
      fmt::format("127.0.0.1:{}", port_ != 0 ? port_ : options_.port),
      options_.credentials ? options_.credentials : grpc::InsecureServerCredentials(), &port_);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  current_ = std::make_unique<CurrentService>(*this);
  draft_ = std::make_unique<DraftService>(*this);
  if (options_.current) builder.RegisterService(current_.get());
  if (options_.draft) builder.RegisterService(draft_.get());
  server_ = builder.BuildAndStart();
}

void FakeController::stop() {
  if (!server_) return;
  stopping_ = true;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeController::restart(const std::string& instance) {
  stop();
  {
    const MutexLock lock(mutex_);
    options_.instance = instance;
    known_.clear();
  }
  start();
}

std::string FakeController::url(const char* scheme) const {
  return fmt::format("{}://127.0.0.1:{}", scheme, port_);
}

std::optional<Fault> FakeController::take_fault(const std::string& method) {
  const MutexLock lock(mutex_);
  ++calls_[method];
  auto& queue = script_[method];
  if (!queue.empty()) {
    Fault fault = std::move(queue.front());
    queue.pop_front();
    return fault;
  }
  if (const auto at = always_.find(method); at != always_.end()) return at->second;
  return std::nullopt;
}

void FakeController::fail_next(const std::string& method, Fault fault) {
  const MutexLock lock(mutex_);
  script_[method].push_back(std::move(fault));
}

void FakeController::fail_always(const std::string& method, std::optional<Fault> fault) {
  const MutexLock lock(mutex_);
  if (fault)
    always_[method] = *std::move(fault);
  else
    always_.erase(method);
}

int FakeController::calls(const std::string& method) const {
  const MutexLock lock(mutex_);
  const auto at = calls_.find(method);
  return at == calls_.end() ? 0 : at->second;
}

pb::CreatePartitionRequest FakeController::last_create() const {
  const MutexLock lock(mutex_);
  return last_create_;
}

std::vector<pb::UpdatePartitionRequest> FakeController::updates() const {
  const MutexLock lock(mutex_);
  return updates_;
}

std::vector<std::string> FakeController::change_log() const {
  const MutexLock lock(mutex_);
  return change_log_;
}

void FakeController::set_state(pb::ControlPlaneState state) {
  const MutexLock lock(mutex_);
  state_ = state;
}

void FakeController::set_instance(const std::string& instance) {
  const MutexLock lock(mutex_);
  options_.instance = instance;
}

void FakeController::set_domain(const std::string& domain) {
  const MutexLock lock(mutex_);
  options_.domain = domain;
}

void FakeController::put_partition(std::uint32_t id, const std::string& name,
                                   const std::vector<std::uint64_t>& uids, pb::PartitionType kind) {
  const MutexLock lock(mutex_);
  partitions_[id] = {name, {uids.begin(), uids.end()}, kind, {}};
}

std::optional<std::vector<std::uint64_t>> FakeController::members(std::uint32_t id) const {
  const MutexLock lock(mutex_);
  const auto at = partitions_.find(id);
  if (at == partitions_.end()) return std::nullopt;
  return std::vector<std::uint64_t>(at->second.members.begin(), at->second.members.end());
}

void FakeController::notify(pb::ServerNotification notification) {
  const MutexLock lock(mutex_);
  for (auto& [box, queue] : outboxes_) queue.push_back(notification);
}

void FakeController::end_streams() {
  end_streams_ = true;
  while (open_streams_ > 0) std::this_thread::sleep_for(kPoll);
  end_streams_ = false;
}

void FakeController::fill_header(pb::ServerHeader& header) {
  header.set_domain_uuid(options_.domain);
  header.set_app_uuid(options_.instance);
  header.set_app_ver("1.2.3");
  if (header.return_code() == pb::NMX_ST_UNDEFINED) header.set_return_code(pb::NMX_ST_SUCCESS);
}

void FakeController::hang(grpc::ServerContext& context) {
  while (!context.IsCancelled() && !stopping_) std::this_thread::sleep_for(kPoll);
}

std::optional<std::uint32_t> FakeController::partition_of(std::uint64_t uid) const {
  for (const auto& [id, partition] : partitions_)
    if (partition.members.contains(uid)) return id;
  return std::nullopt;
}

void FakeController::place(const Gpu& gpu, pb::LocationInfo& info) const {
  info.set_chassis_serial_number("1821220000000");
  info.set_tray_index(gpu.tray);
  info.mutable_location()->set_chassis_id(1);
  info.mutable_location()->set_slot_id(gpu.tray + 21);
  info.mutable_location()->set_host_id(1);
}

const FakeController::Gpu* FakeController::at(const pb::GpuLocation& location) const {
  for (const Gpu& gpu : gpus_)
    if (gpu.tray + 21 == location.loc().slot_id() && gpu.module == location.gpu_id()) return &gpu;
  return nullptr;
}

NmxCode FakeController::hello(const pb::ClientHello& request, pb::ServerHello& answer,
                              std::uint32_t major) {
  answer.set_major_version(static_cast<pb::ProtoMsgMajorVersion>(major));
  return static_cast<std::uint32_t>(request.major_version()) == major ? NmxCode::kSuccess
                                                                      : NmxCode::kVersionMismatch;
}

NmxCode FakeController::gpus(pb::GetGpuInfoListResponse& answer) {
  for (const Gpu& gpu : gpus_) {
    pb::GpuInfo& info = *answer.add_gpu_info_list();
    place(gpu, *info.mutable_loc());
    info.set_gpu_id(gpu.module);
    info.set_gpu_uid(gpu.uid);
    info.set_gpu_health(pb::GPU_HEALTH_HEALTHY);
    if (const auto id = partition_of(gpu.uid)) info.mutable_partition_id()->set_partition_id(*id);
  }
  return NmxCode::kSuccess;
}

NmxCode FakeController::nodes(pb::GetComputeNodeInfoListResponse& answer) {
  for (const Gpu& gpu : gpus_) {
    if (gpu.module != 1) continue;
    pb::ComputeNodeInfo& info = *answer.add_node_info_list();
    place(gpu, *info.mutable_loc());
    info.set_num_gpus(4);
    info.set_node_health(pb::COMPUTE_NODE_HEALTH_HEALTHY);
  }
  return NmxCode::kSuccess;
}

NmxCode FakeController::partitions(const pb::GetPartitionInfoListRequest& request,
                                   pb::GetPartitionInfoListResponse& answer) {
  const bool all = request.partition_id_list().empty() && request.partition_name_list().empty();
  for (const auto& [id, partition] : partitions_) {
    bool wanted = all;
    for (const pb::PartitionId& asked : request.partition_id_list())
      wanted = wanted || asked.partition_id() == id;
    for (const std::string& asked : request.partition_name_list())
      wanted = wanted || asked == partition.name;
    if (!wanted) continue;
    pb::PartitionInfo& info = *answer.add_partition_info_list();
    info.mutable_partition_id()->set_partition_id(id);
    info.set_name(partition.name);
    info.set_num_gpus(static_cast<std::uint32_t>(partition.members.size()));
    info.mutable_gpu_uid_list()->Add(partition.members.begin(), partition.members.end());
    info.set_health(pb::PARTITION_HEALTH_HEALTHY);
    info.set_partition_type(partition.kind);
    *info.mutable_attr() = partition.attr;
  }
  return NmxCode::kSuccess;
}

NmxCode FakeController::create(const pb::CreatePartitionRequest& request,
                               pb::CreatePartitionResponse& answer) {
  last_create_ = request;
  std::set<std::uint64_t> members;
  for (const pb::GpuResourceId& gpu : request.gpu_resource_id()) members.insert(gpu.gpu_uid());
  for (const auto& [id, partition] : partitions_) {
    if (partition.name != request.name()) continue;
    return partition.members == members ? NmxCode::kPartitionExists : NmxCode::kPartitionNameInUse;
  }
  for (const std::uint64_t uid : members)
    if (partition_of(uid)) return NmxCode::kResourceInUse;
  std::uint32_t id = request.partition_id().partition_id();
  if (id == 0)
    for (id = 1; partitions_.contains(id); ++id) {
    }
  partitions_[id] = {request.name(), members, pb::PARTITION_TYPE_GPU_UID_BASED, request.attr()};
  change_log_.push_back(fmt::format("create {}", id));
  answer.mutable_partition_id()->set_partition_id(id);
  return NmxCode::kSuccess;
}

NmxCode FakeController::update(const pb::UpdatePartitionRequest& request, bool add) {
  updates_.push_back(request);
  const auto found = partitions_.find(request.partition_id().partition_id());
  if (found == partitions_.end()) return NmxCode::kPartitionIdNotInUse;
  std::set<std::uint64_t> uids(request.gpu_uid().begin(), request.gpu_uid().end());
  for (const pb::GpuLocation& location : request.location_list()) {
    const Gpu* gpu = at(location);
    if (gpu == nullptr) return NmxCode::kResourceBad;
    uids.insert(gpu->uid);
  }
  const bool by_location = !request.location_list().empty();
  if (found->first != 32'766 &&
      by_location != (found->second.kind == pb::PARTITION_TYPE_LOCATION_BASED))
    return NmxCode::kBadParam;
  if (add)
    for (const std::uint64_t uid : uids)
      if (const auto holder = partition_of(uid); holder && *holder != found->first)
        return NmxCode::kResourceInUse;
  for (const std::uint64_t uid : uids) {
    if (add)
      found->second.members.insert(uid);
    else
      found->second.members.erase(uid);
  }
  change_log_.push_back(fmt::format("{} {} {}", add ? "add" : "remove", uids.size(), found->first));
  return NmxCode::kSuccess;
}

NmxCode FakeController::remove(const pb::DeletePartitionRequest& request) {
  const auto found = partitions_.find(request.partition_id().partition_id());
  if (found == partitions_.end()) return NmxCode::kPartitionIdNotInUse;
  if (!request.name().empty() && request.name() != found->second.name)
    return NmxCode::kPartitionIdNameMismatch;
  change_log_.push_back(fmt::format("delete {}", found->first));
  partitions_.erase(found);
  return NmxCode::kSuccess;
}

}  // namespace imex::fabric::nmxc::testing
