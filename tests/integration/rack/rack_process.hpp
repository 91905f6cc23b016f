/// A real imex-rack of the build, with what tests ask of it. All gone when the object goes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <nlohmann/json.hpp>
#include <nmx_c/draft.grpc.pb.h>
#include <nmx_c/nmx_c.grpc.pb.h>

#include "os/process.hpp"
#include "rack/control_client.hpp"

namespace imex::rack {

/// Long enough for a loaded machine; nothing waits for it that goes well.
inline constexpr std::chrono::seconds kPatience(20);

class RackProcess {
 public:
  RackProcess();
  ~RackProcess();
  RackProcess(const RackProcess&) = delete;
  RackProcess& operator=(const RackProcess&) = delete;

  /// Starts with these arguments besides state, nodes and control; waits for the ready line. A
  /// failure ends the test with the log.
  void start(std::vector<std::string> arguments = {});
  /// SIGKILL, and waits until it is gone.
  void kill();
  /// SIGTERM; the exit status.
  [[nodiscard]] std::optional<int> stop();

  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
  [[nodiscard]] const nlohmann::json& ready() const noexcept { return ready_; }
  [[nodiscard]] std::uint16_t port(unsigned rack = 0) const {
    return ready_["racks"][rack]["port"];
  }
  [[nodiscard]] ControlClient control() const;
  [[nodiscard]] nlohmann::json status(unsigned rack = 0) const;
  [[nodiscard]] std::string tray_file(unsigned tray, const std::string& rack = "rack-0") const;
  [[nodiscard]] std::string log() const;

 private:
  std::string directory_;
  std::optional<os::Child> child_;
  nlohmann::json ready_;
};

/// One client of the current dialect: a channel of its own, a gateway id, a deadline on each call.
class NmxcClient {
 public:
  using Stub = ::nmx_c::NMX_Controller::Stub;
  explicit NmxcClient(std::uint16_t port, std::string gateway = "test",
                      const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                          grpc::InsecureChannelCredentials());

  ::nmx_c::ServerHello hello();
  /// The answer; a status other than OK ends the test.
  template <class Answer, class Request>
  Answer call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Answer*),
              Request request) {
    Answer answer;
    const grpc::Status status = try_call(method, request, answer);
    if (!status.ok()) throw std::runtime_error("call failed: " + status.error_message());
    return answer;
  }
  template <class Answer, class Request>
  grpc::Status try_call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Answer*),
                        Request& request, Answer& answer,
                        std::chrono::milliseconds timeout = kPatience) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    request.set_gateway_id(gateway_);
    return ((*stub_).*method)(&context, request, &answer);
  }
  ::nmx_c::GetPartitionInfoListResponse partitions();
  ::nmx_c::GetGpuInfoListResponse gpus();
  ::nmx_c::CreatePartitionResponse create(const std::string& name,
                                          const std::vector<std::uint64_t>& uids);
  ::nmx_c::UpdatePartitionResponse take(std::uint32_t id, const std::vector<std::uint64_t>& uids);
  [[nodiscard]] Stub& stub() { return *stub_; }
  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  [[nodiscard]] const std::string& gateway() const { return gateway_; }

 private:
  std::string gateway_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

[[nodiscard]] bool eventually(const std::function<bool()>& done);

}  // namespace imex::rack
