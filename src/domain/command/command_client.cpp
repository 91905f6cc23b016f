#include "domain/command_client.hpp"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/grpcpp.h>
#include <imex/command/v1/command.grpc.pb.h>

#include "command_wire.hpp"
#include "os/fd.hpp"

namespace imex::domain {
namespace {

namespace pb = imex::command::v1;

constexpr std::size_t kSocketPathMax = 107;  // sun_path holds 108 bytes with the final zero
constexpr int kAnswerBytesMax = 8 << 20;     // 4096 peers of 400 bytes fit several times

Errc errc_of(grpc::StatusCode code) noexcept {
  switch (code) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Errc::kDeadlineExceeded;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Errc::kVersionMismatch;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Errc::kPermissionDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Errc::kResourceExhausted;
    case grpc::StatusCode::DATA_LOSS:
      return Errc::kDataLoss;
    case grpc::StatusCode::UNAVAILABLE:
      return Errc::kUnavailable;
    default:
      return Errc::kInternal;
  }
}

Error error_of(const grpc::Status& status, const std::string& where) {
  return Error{errc_of(status.error_code()),
               fmt::format("ask the daemon at {}: {}", where, status.error_message())};
}

std::chrono::system_clock::time_point deadline_in(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return std::chrono::system_clock::now() + std::min(timeout, kLongest);
}

std::shared_ptr<grpc::Channel> open_channel(const std::string& target) {
  // Readers of -q want six bytes and nothing on standard error, whatever a daemon answers.
  [[maybe_unused]] static auto* const former = google::protobuf::SetLogHandler(nullptr);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy of the environment is for the web
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);  // no TXT lookups
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);          // a new question dials anew
  arguments.SetMaxReceiveMessageSize(kAnswerBytesMax);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

std::string CommandEndpoint::to_string() const {
  if (!socket.empty()) return "unix:" + socket;
  const bool v6 = address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

struct CommandClient::Impl {
  std::string where;
  os::UniqueFd directory;  // keeps /proc/self/fd/N of a long path valid
  std::unique_ptr<pb::Command::Stub> stub;
};

CommandClient::CommandClient(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
CommandClient::CommandClient(CommandClient&&) noexcept = default;
CommandClient& CommandClient::operator=(CommandClient&&) noexcept = default;
CommandClient::~CommandClient() = default;

Result<CommandClient> CommandClient::connect(const CommandEndpoint& endpoint) {
  auto impl = std::make_unique<Impl>();
  impl->where = endpoint.to_string();
  if (endpoint.socket.empty()) {
    if (endpoint.address.empty())
      return fail(Errc::kInvalidArgument, "no address to ask a daemon at");
    // As a DNS target always: an address must never be read as a scheme.
    impl->stub = pb::Command::NewStub(open_channel("dns:///" + impl->where));
    return CommandClient(std::move(impl));
  }
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(endpoint.socket, error)) {
    return fail(Errc::kNotFound, fmt::format("no command socket {}", endpoint.socket));
  }
  fs::path path = fs::absolute(endpoint.socket, error);
  if (path.native().size() > kSocketPathMax) {
    impl->directory =
        os::UniqueFd(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!impl->directory) {
      return fail(system_error(errno, fmt::format("open {}", path.parent_path().string())));
    }
    path = fmt::format("/proc/self/fd/{}/{}", impl->directory.get(), path.filename().string());
  }
  impl->stub = pb::Command::NewStub(open_channel("unix:" + path.string()));
  return CommandClient(std::move(impl));
}

Result<StatusReport> CommandClient::status(std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(deadline_in(timeout));
  pb::Status answer;
  const grpc::Status done = impl_->stub->GetStatus(&context, {}, &answer);
  if (!done.ok()) return fail(error_of(done, impl_->where));
  return from_proto(answer, impl_->where);
}

Result<HealthReport> CommandClient::health(std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(deadline_in(timeout));
  pb::Health answer;
  const grpc::Status done = impl_->stub->GetHealth(&context, {}, &answer);
  if (!done.ok()) return fail(error_of(done, impl_->where));
  return from_proto(answer, impl_->where);
}

Result<void> CommandClient::watch(const std::function<bool(const StatusReport&)>& seen,
                                  std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(deadline_in(timeout));
  const auto reader = impl_->stub->WatchStatus(&context, {});
  pb::Status answer;
  while (reader->Read(&answer)) {
    auto report = from_proto(answer, impl_->where);
    if (report && seen(*report)) continue;
    context.TryCancel();
    static_cast<void>(reader->Finish());  // cancelled by us: says nothing new
    if (!report) return fail(std::move(report).error());
    return {};
  }
  const grpc::Status done = reader->Finish();
  if (!done.ok()) return fail(error_of(done, impl_->where));
  return fail(Errc::kUnavailable, fmt::format("the daemon at {} ended the watch", impl_->where));
}

std::vector<Result<StatusReport>> ask_all(const std::vector<CommandEndpoint>& endpoints,
                                          std::chrono::milliseconds timeout) {
  struct Call {
    std::size_t index = 0;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<pb::Command::Stub> stub;
    grpc::ClientContext context;
    pb::Status answer;
    grpc::Status done;
    std::unique_ptr<grpc::ClientAsyncResponseReader<pb::Status>> reader;
  };
  std::vector<Result<StatusReport>> results;
  std::vector<std::unique_ptr<Call>> calls;
  grpc::CompletionQueue queue;
  const auto deadline = deadline_in(timeout);
  std::size_t pending = 0;
  for (const CommandEndpoint& endpoint : endpoints) {
    const std::string where = endpoint.to_string();
    results.emplace_back(
        fail(Errc::kUnavailable, fmt::format("the daemon at {} was not asked", where)));
    auto& call = *calls.emplace_back(std::make_unique<Call>());
    call.index = calls.size() - 1;
    call.channel = open_channel(endpoint.socket.empty() ? "dns:///" + where : where);
    call.stub = pb::Command::NewStub(call.channel);
    call.context.set_deadline(deadline);
    call.reader = call.stub->AsyncGetStatus(&call.context, {}, &queue);
    call.reader->Finish(&call.answer, &call.done, &call);
    ++pending;
  }
  // Each call ends by its own deadline at the latest, so this loop does too.
  for (void* tag = nullptr; pending > 0; --pending) {
    bool ok = false;
    if (!queue.Next(&tag, &ok)) break;
    const Call& call = *static_cast<const Call*>(tag);
    const std::string where = endpoints[call.index].to_string();
    if (call.done.ok()) {
      results[call.index] = from_proto(call.answer, where);
    } else {
      results[call.index] = fail(error_of(call.done, where));
    }
  }
  queue.Shutdown();
  return results;
}

}  // namespace imex::domain
