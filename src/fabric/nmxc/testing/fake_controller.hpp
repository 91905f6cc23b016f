/// A fabric controller inside the test: a small, honest model of one domain, and a script of faults
/// per method.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/message.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <nmx_c/draft.grpc.pb.h>
#include <nmx_c/nmx_c.grpc.pb.h>

#include "base/mutex.hpp"
#include "fabric/nmx_code.hpp"

namespace imex::fabric::nmxc::testing {

namespace pb = ::nmx_c;

inline constexpr const char* kDomain = "3b1f8a52-0d1c-4c7e-9c54-7b1a2d3e4f50";
inline constexpr std::uint64_t kFirstUid = 0xabcd'0000'0000'0001ULL;  ///< above 2^53

/// What one call does instead of what is right.
struct Fault {
  std::optional<grpc::Status> status{};  ///< instead of any answer; nothing is applied
  std::optional<NmxCode> code{};         ///< in the header; nothing is applied unless `apply`
  bool apply = false;
  bool hang = false;  ///< no answer; applied first if `apply`
  bool no_header = false;
  std::function<void(google::protobuf::Message&)> spoil{};  ///< changes the answer
};

enum class SessionMode : std::uint8_t { kGateway, kConnection, kOff };

class FakeController {
 public:
  struct Options {
    std::string domain = kDomain;
    std::string instance = "instance-1";
    int port = 0;
    bool current = true, draft = false;
    SessionMode session = SessionMode::kGateway;
    bool subscribe = true;
    std::chrono::milliseconds heartbeat{20};  ///< between heartbeats of a stream
    std::shared_ptr<grpc::ServerCredentials> credentials{};
  };
  explicit FakeController(Options options);
  FakeController() : FakeController(Options{}) {}
  ~FakeController();
  FakeController(const FakeController&) = delete;
  FakeController& operator=(const FakeController&) = delete;

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] std::string url(const char* scheme = "http") const;
  /// Ends all streams and calls; nothing listens any more.
  void stop();
  /// The same port, another life.
  void restart(const std::string& instance);

  /// For the next call of the method; several are taken in order.
  void fail_next(const std::string& method, Fault fault);
  /// For every call from now on; an empty fault ends that.
  void fail_always(const std::string& method, std::optional<Fault> fault);
  [[nodiscard]] int calls(const std::string& method) const;
  [[nodiscard]] pb::CreatePartitionRequest last_create() const;
  [[nodiscard]] std::vector<pb::UpdatePartitionRequest> updates() const;
  [[nodiscard]] std::vector<std::string> change_log() const;

  void set_state(pb::ControlPlaneState state);
  void set_instance(const std::string& instance);
  void set_domain(const std::string& domain);
  void put_partition(std::uint32_t id, const std::string& name,
                     const std::vector<std::uint64_t>& uids,
                     pb::PartitionType kind = pb::PARTITION_TYPE_GPU_UID_BASED);
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> members(std::uint32_t id) const;

  void notify(pb::ServerNotification notification);
  void end_streams();
  /// Streams stay open and say nothing any more.
  void silence_streams(bool silent) { silent_ = silent; }
  [[nodiscard]] int open_streams() const noexcept { return open_streams_; }
  [[nodiscard]] std::uint32_t asked_heartbeat() const noexcept { return asked_heartbeat_; }

 private:
  class CurrentService;
  class DraftService;
  struct Gpu {
    std::uint64_t uid, tray;
    std::uint32_t module;
  };
  struct Partition {
    std::string name;
    std::set<std::uint64_t> members;
    pb::PartitionType kind = pb::PARTITION_TYPE_UNDEFINED;
    pb::PartitionAttr attr;
  };

  void start();
  [[nodiscard]] std::optional<Fault> take_fault(const std::string& method);
  template <class Request, class Answer, class Apply>
  grpc::Status serve(const char* method, grpc::ServerContext& context, const Request& request,
                     Answer& answer, Apply apply);
  void fill_header(pb::ServerHeader& header) IMEX_REQUIRES(mutex_);
  void hang(grpc::ServerContext& context);
  template <class Notification>
  grpc::Status stream(grpc::ServerContext& context, grpc::ServerWriter<Notification>& writer,
                      bool heartbeats);
  [[nodiscard]] std::optional<std::uint32_t> partition_of(std::uint64_t uid) const
      IMEX_REQUIRES(mutex_);
  void place(const Gpu& gpu, pb::LocationInfo& info) const;
  [[nodiscard]] const Gpu* at(const pb::GpuLocation& location) const IMEX_REQUIRES(mutex_);

  // One function for each method, the same in both dialects. Return: the code of the answer.
  NmxCode hello(const pb::ClientHello& request, pb::ServerHello& answer, std::uint32_t major)
      IMEX_REQUIRES(mutex_);
  NmxCode gpus(pb::GetGpuInfoListResponse& answer) IMEX_REQUIRES(mutex_);
  NmxCode nodes(pb::GetComputeNodeInfoListResponse& answer) IMEX_REQUIRES(mutex_);
  NmxCode partitions(const pb::GetPartitionInfoListRequest& request,
                     pb::GetPartitionInfoListResponse& answer) IMEX_REQUIRES(mutex_);
  NmxCode create(const pb::CreatePartitionRequest& request, pb::CreatePartitionResponse& answer)
      IMEX_REQUIRES(mutex_);
  NmxCode update(const pb::UpdatePartitionRequest& request, bool add) IMEX_REQUIRES(mutex_);
  NmxCode remove(const pb::DeletePartitionRequest& request) IMEX_REQUIRES(mutex_);

  Options options_;
  int port_ = 0;
  std::unique_ptr<CurrentService> current_;
  std::unique_ptr<DraftService> draft_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stopping_{false}, silent_{false}, end_streams_{false};
  std::atomic<int> open_streams_{0};
  std::atomic<std::uint32_t> asked_heartbeat_{0};

  mutable Mutex mutex_;
  std::map<std::string, std::deque<Fault>> script_ IMEX_GUARDED_BY(mutex_);
  std::map<std::string, Fault> always_ IMEX_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ IMEX_GUARDED_BY(mutex_);
  std::set<std::string> known_ IMEX_GUARDED_BY(mutex_);  ///< gateways, or connections
  std::vector<Gpu> gpus_ IMEX_GUARDED_BY(mutex_);
  std::map<std::uint32_t, Partition> partitions_ IMEX_GUARDED_BY(mutex_);
  pb::ControlPlaneState state_ IMEX_GUARDED_BY(mutex_) = pb::CONTROL_PLANE_STATE_CONFIGURED;
  pb::CreatePartitionRequest last_create_ IMEX_GUARDED_BY(mutex_);
  std::vector<pb::UpdatePartitionRequest> updates_ IMEX_GUARDED_BY(mutex_);
  std::vector<std::string> change_log_ IMEX_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::deque<pb::ServerNotification>> outboxes_ IMEX_GUARDED_BY(mutex_);
  std::uint64_t next_outbox_ IMEX_GUARDED_BY(mutex_) = 0;
};

}  // namespace imex::fabric::nmxc::testing
