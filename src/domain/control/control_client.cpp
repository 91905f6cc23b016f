#include "domain/control_client.hpp"

#include <fmt/format.h>
#include <imex/control/v1/control.grpc.pb.h>

#include "grant_wire.hpp"
#include "local_service.hpp"

namespace imex::domain {
namespace {

namespace pb = imex::control::v1;

}  // namespace

struct ControlClient::Impl {
  LocalService service;
  std::unique_ptr<pb::Control::Stub> stub;

  template <class Request, class Reply>
  Result<Reply> call(LocalService::Method<pb::Control::Stub, Request, Reply> method,
                     const Request& request, const std::string& what) {
    return service.call(*stub, method, request, what);
  }
};

ControlClient::ControlClient(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ControlClient::ControlClient(ControlClient&&) noexcept = default;
ControlClient& ControlClient::operator=(ControlClient&&) noexcept = default;
ControlClient::~ControlClient() = default;

Result<ControlClient> ControlClient::connect(const std::string& socket_path,
                                             std::chrono::milliseconds timeout) {
  IMEX_TRY(auto service, LocalService::open(socket_path, timeout));
  auto stub = pb::Control::NewStub(service.channel());
  return ControlClient(std::make_unique<Impl>(Impl{std::move(service), std::move(stub)}));
}

Result<ChannelGrant> ControlClient::grant(const GrantRequestOptions& options) {
  pb::GrantRequest request;
  request.set_workload(options.workload);
  request.mutable_gpu_uids()->Add(options.gpu_uids.begin(), options.gpu_uids.end());
  request.mutable_gpu_indexes()->Add(options.gpu_indexes.begin(), options.gpu_indexes.end());
  if (options.uid) request.set_uid(*options.uid);
  IMEX_TRY(const pb::GrantReply reply,
           impl_->call(&pb::Control::Stub::Grant, request,
                       fmt::format("grant a channel to workload '{}'", options.workload)));
  // What the daemon resolved (user, GPUs by uid) stands in its table.
  IMEX_TRY(const auto grants, list());
  for (const ChannelGrant& grant : grants) {
    if (grant.workload == options.workload) return grant;
  }
  return ChannelGrant{options.workload, reply.channel(), reply.path(), options.uid.value_or(0),
                      options.gpu_uids};
}

Result<void> ControlClient::release(const std::string& workload) {
  pb::ReleaseRequest request;
  request.set_workload(workload);
  IMEX_CHECK_OK(impl_->call(&pb::Control::Stub::Release, request,
                            fmt::format("release the channel of workload '{}'", workload)));
  return {};
}

Result<std::vector<ChannelGrant>> ControlClient::list() {
  IMEX_TRY(const pb::ListReply reply,
           impl_->call(&pb::Control::Stub::List, pb::ListRequest{}, "list granted channels"));
  return from_proto(reply);
}

}  // namespace imex::domain
