#include "rack_process.hpp"

#include <fcntl.h>

#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/file.hpp"

namespace imex::rack {

RackProcess::RackProcess() : directory_(os::make_temporary_directory("imex-rack-test").value()) {}

RackProcess::~RackProcess() {
  child_.reset();
  static_cast<void>(os::remove_tree(directory_));
}

std::string RackProcess::log() const { return os::read_file(directory_ + "/log").value_or(""); }

void RackProcess::start(std::vector<std::string> arguments) {
  const std::string out = directory_ + "/out";
  os::remove_file(out);
  const auto out_fd = os::open_for_append(out, true);
  const auto log_fd = os::open_for_append(directory_ + "/log", false);
  ASSERT_TRUE(out_fd && log_fd);
  os::Child::Options options;
  options.arguments = {IMEX_RACK,
                       "--state-dir",
                       directory_ + "/state",
                       "--nodes-dir",
                       directory_ + "/nodes",
                       "--control",
                       directory_ + "/control.sock"};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.stdout_fd = out_fd->get();
  options.stderr_fd = log_fd->get();
  auto child = os::Child::start(options);
  ASSERT_TRUE(child) << child.error().message;
  child_.emplace(std::move(*child));
  const bool came = eventually([&] {
    const auto text = os::read_file(out);
    if (!text || !text->ends_with('\n'))
      return child_->wait(std::chrono::milliseconds(0)).has_value();
    ready_ = nlohmann::json::parse(*text);
    return true;
  });
  ASSERT_TRUE(came && ready_.is_object()) << log();
}

void RackProcess::kill() {
  ASSERT_TRUE(child_->kill(SIGKILL));
  ASSERT_TRUE(child_->wait(kPatience));
  child_.reset();
}

std::optional<int> RackProcess::stop() {
  EXPECT_TRUE(child_->kill(SIGTERM));
  const auto status = child_->wait(kPatience);
  child_.reset();
  return status;
}

ControlClient RackProcess::control() const {
  return ControlClient::connect(directory_ + "/control.sock", kPatience).value();
}

nlohmann::json RackProcess::status(unsigned rack) const {
  return nlohmann::json::parse(control().status().value())["racks"][rack];
}

std::string RackProcess::tray_file(unsigned tray, const std::string& rack) const {
  return os::read_file(fmt::format("{}/nodes/{}/tray-{:02}.toml", directory_, rack, tray))
      .value_or("");
}

NmxcClient::NmxcClient(std::uint16_t port, std::string gateway,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : gateway_(std::move(gateway)) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetSslTargetNameOverride("rack.test");
  channel_ = grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port), credentials, arguments);
  stub_ = ::nmx_c::NMX_Controller::NewStub(channel_);
}

::nmx_c::ServerHello NmxcClient::hello() {
  ::nmx_c::ClientHello request;
  request.set_major_version(::nmx_c::PROTO_MAJOR_CURRENT);
  request.set_minor_version(::nmx_c::PROTO_MINOR_CURRENT);
  return call(&Stub::Hello, request);
}

::nmx_c::GetPartitionInfoListResponse NmxcClient::partitions() {
  return call(&Stub::GetPartitionInfoList, ::nmx_c::GetPartitionInfoListRequest());
}

::nmx_c::GetGpuInfoListResponse NmxcClient::gpus() {
  ::nmx_c::GetGpuInfoListRequest request;
  request.set_attr(::nmx_c::GPU_ATTR_ALL);
  return call(&Stub::GetGpuInfoList, request);
}

::nmx_c::CreatePartitionResponse NmxcClient::create(const std::string& name,
                                                    const std::vector<std::uint64_t>& uids) {
  ::nmx_c::CreatePartitionRequest request;
  request.set_name(name);
  for (const std::uint64_t uid : uids) request.add_gpu_resource_id()->set_gpu_uid(uid);
  return call(&Stub::CreatePartition, request);
}

::nmx_c::UpdatePartitionResponse NmxcClient::take(std::uint32_t id,
                                                  const std::vector<std::uint64_t>& uids) {
  ::nmx_c::UpdatePartitionRequest request;
  request.mutable_partition_id()->set_partition_id(id);
  request.set_reroute(true);
  for (const std::uint64_t uid : uids) request.add_gpu_uid(uid);
  return call(&Stub::RemoveGpusFromPartition, request);
}

bool eventually(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done();
}

}  // namespace imex::rack
