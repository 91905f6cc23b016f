#include "grpc_listener.hpp"

#include <utility>

#include <fmt/format.h>

#include "descriptor_reserve.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"

namespace imex::domain {

namespace {

constexpr int kConnectionsPerRound = 16;
/// Rest of a listener whose process has no descriptor left.
constexpr auto kRest = std::chrono::milliseconds(50);
constexpr auto kWarningInterval = std::chrono::seconds(10);

using ConnectionType = grpc::ServerBuilder::experimental_type::ExternalConnectionType;

}  // namespace

GrpcListener::GrpcListener(net::EventLoop& loop, ServerSocket socket, Share share, LogSink log,
                           grpc::ServerBuilder& builder,
                           const std::shared_ptr<grpc::ServerCredentials>& credentials)
    : loop_(loop),
      socket_(std::move(socket)),
      share_(share),
      log_(std::move(log)),
      acceptor_(builder.experimental().AddExternalConnectionAcceptor(ConnectionType::FROM_FD,
                                                                     credentials)),
      watch_(loop, socket_.fd.get()),
      retry_(loop) {}

GrpcListener::~GrpcListener() {
  if (!socket_.path.empty()) os::remove_file(socket_.path);
}

void GrpcListener::start() {
  watch_.on_readable([this] { accept(); });
}

void GrpcListener::accept() {
  for (int i = 0; i < kConnectionsPerRound; ++i) {
    auto connection = os::accept_stream(socket_.fd.get());
    if (!connection && connection.error().code == Errc::kResourceExhausted) return;  // none waits
    if (!connection) {
      turn_away();
      return rest();
    }
    const bool afforded = share_ == Share::kPeers
                              ? !DescriptorReserve::exhausted_by(connection->get())
                              : !DescriptorReserve::used_up_by(connection->get());
    if (!afforded) {
      turn_away();
      continue;  // closed: whoever waits behind it learns so too
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = socket_.fd.get();
    parameters.fd = connection->release();
    acceptor_->HandleNewConnection(&parameters);
  }
}

/// Level-triggered, the listener would spin: it rests instead, who waits stays in the queue.
void GrpcListener::rest() {
  watch_.on_readable({});
  retry_.arm(loop_.now() + kRest, [this] { start(); });
}

void GrpcListener::turn_away() {
  const Time now = loop_.now();
  if (now - told_ < kWarningInterval) return;
  told_ = now;
  log_(kLogWarning, fmt::format("{}: connections are turned away: no descriptor is left for them",
                                socket_.name));
}

}  // namespace imex::domain
