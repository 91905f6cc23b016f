#include "domain/control_client.hpp"

#include <fcntl.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <imex/control/v1/control.grpc.pb.h>

#include "os/fd.hpp"

namespace imex::domain {
namespace {

namespace pb = imex::control::v1;

/// sun_path holds 108 bytes with the final zero.
constexpr std::size_t kSocketPathMax = 107;

Errc errc_of(grpc::StatusCode code) noexcept {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Errc::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return Errc::kNotFound;
    case grpc::StatusCode::ALREADY_EXISTS:
      return Errc::kAlreadyExists;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Errc::kPermissionDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Errc::kResourceExhausted;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Errc::kFailedPrecondition;
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::CANCELLED:
      return Errc::kAborted;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Errc::kDeadlineExceeded;
    case grpc::StatusCode::UNAVAILABLE:
      return Errc::kUnavailable;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Errc::kVersionMismatch;
    case grpc::StatusCode::DATA_LOSS:
      return Errc::kDataLoss;
    default:
      return Errc::kInternal;
  }
}

/// What a failed call means to a person. gRPC gives the text of a refused connection only in words.
Error error_of(const grpc::Status& status, const std::string& what, const std::string& path) {
  Error error{errc_of(status.error_code()), fmt::format("{}: {}", what, status.error_message())};
  if (status.error_message().find("ermission denied") != std::string::npos) {
    error.code = Errc::kPermissionDenied;
    error.hint = fmt::format("{} is for root and the daemon's user: run this as one of them", path);
  } else if (error.code == Errc::kUnavailable) {
    error.hint = "see whether imexd runs and what it says: imex domain show";
  }
  return error;
}

ChannelGrant from_proto(const pb::Grant& grant) {
  return {grant.workload(),
          grant.channel(),
          grant.path(),
          grant.uid(),
          {grant.gpu_uids().begin(), grant.gpu_uids().end()}};
}

}  // namespace

struct ControlClient::Impl {
  std::string path;
  std::chrono::milliseconds timeout;
  os::UniqueFd directory;  // keeps /proc/self/fd/N of a long path valid
  std::unique_ptr<pb::Control::Stub> stub;

  /// Calls one method under the deadline and turns its status into a Result.
  template <class Request, class Reply>
  Result<Reply> call(grpc::Status (pb::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Reply*),
                     const Request& request, const std::string& what) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    Reply reply;
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    if (!status.ok()) return fail(error_of(status, what, path));
    return reply;
  }
};

ControlClient::ControlClient(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ControlClient::ControlClient(ControlClient&&) noexcept = default;
ControlClient& ControlClient::operator=(ControlClient&&) noexcept = default;
ControlClient::~ControlClient() = default;

Result<ControlClient> ControlClient::connect(const std::string& socket_path,
                                             std::chrono::milliseconds timeout) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(socket_path, error)) {
    return fail(Errc::kNotFound, fmt::format("no control socket {}", socket_path),
                "start imexd, or name its state directory with --state-dir");
  }
  auto impl = std::make_unique<Impl>();
  impl->path = socket_path;
  impl->timeout = timeout;
  std::string target = fs::absolute(socket_path, error).string();
  if (target.size() > kSocketPathMax) {
    const fs::path whole(target);
    impl->directory =
        os::UniqueFd(::open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!impl->directory) {
      return fail(system_error(errno, fmt::format("open {}", whole.parent_path().string())));
    }
    target = fmt::format("/proc/self/fd/{}/{}", impl->directory.get(), whole.filename().string());
  }
  impl->stub = pb::Control::NewStub(
      grpc::CreateChannel("unix:" + target, grpc::InsecureChannelCredentials()));
  return ControlClient(std::move(impl));
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
  std::vector<ChannelGrant> grants;
  for (const pb::Grant& grant : reply.grants()) grants.push_back(from_proto(grant));
  return grants;
}

}  // namespace imex::domain
