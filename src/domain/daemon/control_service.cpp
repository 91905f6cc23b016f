#include "control_service.hpp"

#include <fmt/format.h>
#include <imex/control/v1/control.grpc.pb.h>

#include "control_wire.hpp"
#include "grpc_listener.hpp"
#include "grpc_server.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::control::v1;

constexpr int kMessageBytesMax = 256 << 10;
constexpr std::chrono::milliseconds kStopGrace{200};

}  // namespace

struct ControlService::Impl final : pb::Control::CallbackService {
  Impl(net::EventLoop& on, ControlSource& from) : loop(on), source(from) {}

  grpc::ServerUnaryReactor* Grant(grpc::CallbackServerContext* context,
                                  const pb::GrantRequest* request, pb::GrantReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    auto asked = read_grant(*request);
    if (!asked) {
      reactor->Finish(grpc_status(asked.error()));
      return reactor;
    }
    loop.post([this, reactor, reply, asked = std::move(*asked)] {
      source.grant(asked, [reactor, reply](const Result<GrantGiven>& given) {
        if (!given) return reactor->Finish(grpc_status(given.error()));
        reply->set_channel(given->grant.channel);
        reply->set_path(given->path);
        reactor->Finish(grpc::Status::OK);
      });
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const pb::ReleaseRequest* request,
                                    pb::ReleaseReply* reply) override {
    static_cast<void>(reply);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    auto workload = read_release(*request);
    if (!workload) {
      reactor->Finish(grpc_status(workload.error()));
      return reactor;
    }
    loop.post([this, reactor, workload = std::move(*workload)] {
      const auto released = source.release(workload);
      reactor->Finish(released ? grpc::Status::OK : grpc_status(released.error()));
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const pb::ListRequest* request, pb::ListReply* reply) override {
    static_cast<void>(request);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop.post([this, reactor, reply] {
      for (const GrantGiven& given : source.grants()) {
        pb::Grant& row = *reply->add_grants();
        row.set_workload(given.grant.workload);
        row.set_channel(given.grant.channel);
        row.set_path(given.path);
        row.set_uid(given.grant.uid);
        for (const std::uint64_t uid : given.grant.gpu_uids) row.add_gpu_uids(uid);
      }
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }

  net::EventLoop& loop;
  ControlSource& source;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<GrpcListener> listener;
};

ControlService::ControlService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlService::~ControlService() {
  if (impl_->server) stop();
}

Result<std::unique_ptr<ControlService>> ControlService::start(net::EventLoop& loop,
                                                              const std::string& path,
                                                              ControlSource& source, LogSink log) {
  IMEX_TRY(ServerSocket socket, listen_local(path, 0600));
  auto impl = std::make_unique<Impl>(loop, source);
  grpc::ServerBuilder builder;
  set_server_defaults(builder, kMessageBytesMax);
  impl->listener =
      std::make_unique<GrpcListener>(loop, std::move(socket), GrpcListener::Share::kPeers,
                                     std::move(log), builder, grpc::InsecureServerCredentials());
  builder.RegisterService(impl.get());
  impl->server = builder.BuildAndStart();
  if (!impl->server) return fail(Errc::kInternal, "control service: gRPC did not start");
  impl->listener->start();
  return std::unique_ptr<ControlService>(new ControlService(std::move(impl)));
}

void ControlService::stop() {
  impl_->listener.reset();
  shut_down(impl_->loop, *impl_->server, kStopGrace);
  impl_->server.reset();
}

}  // namespace imex::domain
