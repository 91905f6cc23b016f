#include "command_service.hpp"

#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <imex/command/v1/command.grpc.pb.h>

#include "base/mutex.hpp"
#include "grpc_listener.hpp"
#include "grpc_server.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::command::v1;

constexpr int kMessageBytesMax = 64 << 10;
constexpr Nanos kWatchInterval = std::chrono::milliseconds(100);
constexpr std::size_t kWatchersMax = 256;
constexpr std::chrono::milliseconds kStopGrace{200};

class Watcher;

}  // namespace

struct CommandService::Impl final : pb::Command::CallbackService {
  Impl(net::EventLoop& on, CommandSource& from) : loop(on), source(from), timer(on) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const pb::GetStatusRequest* request,
                                      pb::Status* reply) override {
    static_cast<void>(request);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop.post([this, reactor, reply] {
      source.fill_status(*reply);
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }
  grpc::ServerUnaryReactor* GetHealth(grpc::CallbackServerContext* context,
                                      const pb::GetHealthRequest* request,
                                      pb::Health* reply) override {
    static_cast<void>(request);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop.post([this, reactor, reply] {
      source.fill_health(*reply);
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }
  grpc::ServerWriteReactor<pb::Status>* WatchStatus(grpc::CallbackServerContext* context,
                                                    const pb::GetStatusRequest* request) override;
  void tell_all();

  net::EventLoop& loop;
  CommandSource& source;
  std::unique_ptr<grpc::Server> server;
  std::vector<std::unique_ptr<GrpcListener>> listeners;
  // On the loop:
  std::set<std::shared_ptr<Watcher>> watchers;
  net::Timer timer;
  Time told{0};
};

namespace {

/// One follower of the status. Sends the newest one when the last is written: a slow reader misses
/// steps in between, never the end.
class Watcher final : public grpc::ServerWriteReactor<pb::Status> {
 public:
  explicit Watcher(CommandService::Impl& service) : service_(service) {}
  void keep(std::shared_ptr<Watcher> self) { keep_ = std::move(self); }

  void tell(const pb::Status& status) {
    {
      MutexLock lock(mutex_);
      newest_ = status;
      fresh_ = true;
    }
    next();
  }
  void end() {
    {
      MutexLock lock(mutex_);
      ending_ = true;
    }
    next();
  }

 private:
  void next() {
    const pb::Status* write = nullptr;
    {
      MutexLock lock(mutex_);
      if (writing_ || finished_ || (!fresh_ && !ending_)) return;
      if (ending_) {
        finished_ = true;
      } else {
        writing_ = true;
        fresh_ = false;
        current_ = newest_;
        write = &current_;
      }
    }
    if (write != nullptr) {
      StartWrite(write);
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      ending_ = ending_ || !ok;
    }
    next();
  }
  void OnCancel() override { end(); }
  void OnDone() override {
    service_.loop.post([service = &service_, self = keep_] { service->watchers.erase(self); });
    keep_.reset();
  }

  CommandService::Impl& service_;
  std::shared_ptr<Watcher> keep_;  ///< until OnDone
  Mutex mutex_;
  pb::Status newest_ IMEX_GUARDED_BY(mutex_);
  pb::Status current_ IMEX_GUARDED_BY(mutex_);  ///< gRPC reads it until OnWriteDone
  bool fresh_ IMEX_GUARDED_BY(mutex_) = false;
  bool writing_ IMEX_GUARDED_BY(mutex_) = false;
  bool ending_ IMEX_GUARDED_BY(mutex_) = false;
  bool finished_ IMEX_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerWriteReactor<pb::Status>* CommandService::Impl::WatchStatus(
    grpc::CallbackServerContext* context, const pb::GetStatusRequest* request) {
  static_cast<void>(context);
  static_cast<void>(request);
  auto watcher = std::make_shared<Watcher>(*this);
  watcher->keep(watcher);
  loop.post([this, watcher] {
    if (watchers.size() >= kWatchersMax) return watcher->end();
    watchers.insert(watcher);
    pb::Status status;
    source.fill_status(status);
    watcher->tell(status);
  });
  return watcher.get();
}

void CommandService::Impl::tell_all() {
  told = loop.now();
  if (watchers.empty()) return;
  pb::Status status;
  source.fill_status(status);
  for (const auto& watcher : watchers) watcher->tell(status);
}

CommandService::CommandService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CommandService::~CommandService() {
  if (impl_->server) stop();
}

Result<std::unique_ptr<CommandService>> CommandService::start(net::EventLoop& loop,
                                                              std::vector<ServerSocket> sockets,
                                                              CommandSource& source, LogSink log) {
  auto impl = std::make_unique<Impl>(loop, source);
  grpc::ServerBuilder builder;
  set_server_defaults(builder, kMessageBytesMax);
  for (ServerSocket& socket : sockets) {
    impl->listeners.push_back(
        std::make_unique<GrpcListener>(loop, std::move(socket), GrpcListener::Share::kCommands, log,
                                       builder, grpc::InsecureServerCredentials()));
  }
  builder.RegisterService(impl.get());
  impl->server = builder.BuildAndStart();
  if (!impl->server) return fail(Errc::kInternal, "command service: gRPC did not start");
  for (const auto& listener : impl->listeners) listener->start();
  return std::unique_ptr<CommandService>(new CommandService(std::move(impl)));
}

void CommandService::changed() {
  if (impl_->timer.armed()) return;
  const Time due = impl_->told + kWatchInterval;
  impl_->timer.arm(due, [impl = impl_.get()] { impl->tell_all(); });
}

void CommandService::stop() {
  impl_->timer.cancel();
  impl_->tell_all();
  for (const auto& watcher : impl_->watchers) watcher->end();
  impl_->listeners.clear();
  shut_down(impl_->loop, *impl_->server, kStopGrace);
  bool drained = false;
  impl_->loop.post([&drained] { drained = true; });
  static_cast<void>(impl_->loop.run_until([&drained] { return drained; }, kNever));
  impl_->server.reset();
}

}  // namespace imex::domain
