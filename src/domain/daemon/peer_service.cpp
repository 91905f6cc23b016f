#include "peer_service.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <imex/peer/v1/peer.grpc.pb.h>

#include "base/mutex.hpp"
#include "grpc_server.hpp"
#include "net/resolver.hpp"
#include "port_probe.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::peer::v1;

/// A hello with 4096 names of 253 bytes, and some.
constexpr int kMessageBytesMax = 2 << 20;
/// Messages that wait for a peer that does not read; then the stream ends.
constexpr std::size_t kWaitingMax = 256;
constexpr std::chrono::milliseconds kStopGrace{300};
constexpr Nanos kHangUpGrace = std::chrono::seconds(1);

/// What both kinds of streams share: an ordered queue of messages to write, one write at a time,
/// one read at a time, the next read only after the loop has taken the last message. Threads:
/// send() and close() on the loop; the reactors' callbacks on gRPC's threads.
template <class Reactor>
class Stream : public Reactor {
 public:
  virtual ~Stream() = default;

  void send(pb::PeerMessage message) {
    bool cancel = false;
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      cancel = waiting_.size() >= kWaitingMax;
      if (!cancel) waiting_.push_back(std::move(message));
    }
    if (cancel) return abandon();
    write_next();
  }

 protected:
  /// Ends the stream now; on any thread.
  virtual void abandon() = 0;
  /// All is written and close() was called. Called once, on any thread, without the lock.
  virtual void finish_writing() = 0;

  void close_after_writing() {
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      ending_ = true;
    }
    write_next();
  }
  /// Reads the next message, unless the stream has ended: gRPC frees the call once it is finished
  /// and nothing is under way, so a read may be started only before that.
  void start_read(pb::PeerMessage* into) {
    {
      MutexLock lock(mutex_);
      if (finished_) return;
      starting_read_ = true;  // holds back the end until the read counts as under way
    }
    this->StartRead(into);
    {
      MutexLock lock(mutex_);
      starting_read_ = false;
    }
    write_next();
  }
  void on_written(bool ok) {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) waiting_.clear();
      if (!ok) ending_ = true;
    }
    write_next();
  }

 private:
  void write_next() {
    const pb::PeerMessage* next = nullptr;
    {
      MutexLock lock(mutex_);
      if (writing_ || starting_read_ || finished_ || (waiting_.empty() && !ending_)) return;
      if (waiting_.empty()) {
        finished_ = true;
      } else {
        writing_ = true;
        current_ = std::move(waiting_.front());
        waiting_.pop_front();
        next = &current_;
      }
    }
    // Without the lock: gRPC may call back from inside.
    if (next != nullptr) {
      this->StartWrite(next);
    } else {
      finish_writing();
    }
  }

  Mutex mutex_;
  std::deque<pb::PeerMessage> waiting_ IMEX_GUARDED_BY(mutex_);
  pb::PeerMessage current_ IMEX_GUARDED_BY(mutex_);  ///< gRPC reads it until OnWriteDone
  bool writing_ IMEX_GUARDED_BY(mutex_) = false;
  bool starting_read_ IMEX_GUARDED_BY(mutex_) = false;
  bool ending_ IMEX_GUARDED_BY(mutex_) = false;
  bool finished_ IMEX_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<grpc::experimental::CertificateProviderInterface> certificate_provider(
    const net::TlsIdentity& tls) {
  using grpc::experimental::FileWatcherCertificateProvider;
  using grpc::experimental::StaticDataCertificateProvider;
  if (tls.key_path.empty()) {  // from the environment, which cannot change
    return std::make_shared<StaticDataCertificateProvider>(
        tls.authority,
        std::vector<grpc::experimental::IdentityKeyCertPair>{{tls.key, tls.certificate}});
  }
  constexpr unsigned kRefreshSeconds = 1;
  return std::make_shared<FileWatcherCertificateProvider>(tls.key_path, tls.certificate_path,
                                                          tls.authority_path, kRefreshSeconds);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(
    const std::optional<net::TlsIdentity>& tls) {
  if (!tls) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(certificate_provider(*tls));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> client_credentials(
    const std::optional<PeerDialer::Security>& security) {
  if (!security) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security->identity.authority;
  options.pem_private_key = security->identity.key;
  options.pem_cert_chain = security->identity.certificate;
  return grpc::SslCredentials(options);
}

}  // namespace

// ---- streams that others open ----

namespace {
class Inbound;
}

struct PeerServer::Impl final : pb::Peer::CallbackService {
  Impl(net::EventLoop& on, LogSink sink) : loop(on), log(std::move(sink)) {}

  grpc::ServerBidiReactor<pb::PeerMessage, pb::PeerMessage>* Connect(
      grpc::CallbackServerContext* context) override;

  // The rest on the loop.
  void on_message(const std::shared_ptr<Inbound>& stream, const pb::PeerMessage& message);
  void on_done(std::uint64_t id);
  void route(const std::shared_ptr<Inbound>& stream, PeerHello hello);
  [[nodiscard]] std::shared_ptr<Inbound> find(std::uint64_t id) const;

  struct Entry {
    std::shared_ptr<Inbound> stream;
    PeerAcceptor* acceptor = nullptr;  ///< null before the hello
  };
  net::EventLoop& loop;
  LogSink log;
  std::vector<PeerAcceptor*> acceptors;
  std::unordered_map<std::uint64_t, Entry> streams;
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<PeerServer::Impl*> self = std::make_shared<PeerServer::Impl*>(this);
  std::atomic<std::uint64_t> last_stream{0};  ///< only counts: relaxed
};

namespace {

/// Lives until gRPC's OnDone and the loop's last use.
class Inbound final : public Stream<grpc::ServerBidiReactor<pb::PeerMessage, pb::PeerMessage>> {
 public:
  static Inbound* start(PeerServer::Impl& server, std::uint64_t id,
                        grpc::CallbackServerContext* context) {
    auto stream = std::shared_ptr<Inbound>(new Inbound(server, id, context));
    stream->keep_ = stream;
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// On the loop, once the last message was taken.
  void read_next() { start_read(&incoming_); }
  void close() { close_after_writing(); }

 private:
  Inbound(PeerServer::Impl& server, std::uint64_t id, grpc::CallbackServerContext* context)
      : server_(server.self), loop_(server.loop), id_(id), context_(context) {}

  void OnReadDone(bool ok) override {
    if (!ok) return close();
    loop_.post(
        [server = server_, self = shared()] { (*server)->on_message(self, self->incoming_); });
  }
  void OnWriteDone(bool ok) override { on_written(ok); }
  void OnCancel() override { close(); }
  void OnDone() override {
    loop_.post([server = server_, id = id_] { (*server)->on_done(id); });
    keep_.reset();
  }
  void abandon() override {
    context_->TryCancel();
    close();
  }
  void finish_writing() override { Finish(grpc::Status::OK); }
  [[nodiscard]] std::shared_ptr<Inbound> shared() const { return keep_; }

  std::shared_ptr<PeerServer::Impl*> server_;
  net::EventLoop& loop_;
  std::uint64_t id_;
  grpc::CallbackServerContext* context_;
  pb::PeerMessage incoming_;
  std::shared_ptr<Inbound> keep_;  ///< until OnDone
};

}  // namespace

grpc::ServerBidiReactor<pb::PeerMessage, pb::PeerMessage>* PeerServer::Impl::Connect(
    grpc::CallbackServerContext* context) {
  return Inbound::start(*this, last_stream.fetch_add(1, std::memory_order_relaxed) + 1, context);
}

std::shared_ptr<Inbound> PeerServer::Impl::find(std::uint64_t id) const {
  const auto found = streams.find(id);
  return found == streams.end() ? nullptr : found->second.stream;
}

void PeerServer::Impl::on_message(const std::shared_ptr<Inbound>& stream,
                                  const pb::PeerMessage& message) {
  auto payload = from_proto(message);
  const auto found = streams.find(stream->id());
  const bool greeted = found != streams.end();
  auto* hello = payload ? std::get_if<PeerHello>(&*payload) : nullptr;
  if (!payload || greeted == (hello != nullptr)) {
    log(kLogWarning, fmt::format("a peer's stream ends: {}",
                                 payload ? "message out of order" : payload.error().message));
    stream->close();
    return;
  }
  if (hello != nullptr) {
    route(stream, std::move(*hello));
  } else if (found->second.acceptor != nullptr) {
    found->second.acceptor->on_message(stream->id(), std::move(*payload));
  }
  stream->read_next();
}

void PeerServer::Impl::route(const std::shared_ptr<Inbound>& stream, PeerHello hello) {
  PeerAcceptor* best = nullptr;
  int best_fit = -1;
  for (PeerAcceptor* acceptor : acceptors) {
    const int fit = acceptor->affinity(hello.hello);
    if (fit > best_fit) best = acceptor;
    best_fit = std::max(best_fit, fit);
  }
  if (best == nullptr) return stream->close();
  streams.emplace(stream->id(), Entry{stream, best});
  best->on_hello(stream->id(), std::move(hello.hello));
}

void PeerServer::Impl::on_done(std::uint64_t id) {
  const auto found = streams.find(id);
  if (found == streams.end()) return;
  PeerAcceptor* acceptor = found->second.acceptor;
  streams.erase(found);
  if (acceptor != nullptr) acceptor->on_closed(id);
}

PeerServer::PeerServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

PeerServer::~PeerServer() {
  if (impl_->server) stop();
}

Result<std::unique_ptr<PeerServer>> PeerServer::start(net::EventLoop& loop,
                                                      const std::string& address,
                                                      std::uint16_t port,
                                                      const std::optional<net::TlsIdentity>& tls,
                                                      LogSink log) {
  IMEX_CHECK_OK(probe_tcp_port(address, port));
  auto impl = std::make_unique<Impl>(loop, std::move(log));
  grpc::ServerBuilder builder;
  set_server_defaults(builder, kMessageBytesMax);
  const std::string endpoint = net::endpoint_text(address, port);
  int bound = 0;
  builder.AddListeningPort(endpoint, server_credentials(tls), &bound);
  builder.RegisterService(impl.get());
  impl->server = builder.BuildAndStart();
  if (!impl->server || bound == 0) {
    return fail(Errc::kAlreadyExists, fmt::format("listen on {}: taken meanwhile", endpoint));
  }
  return std::unique_ptr<PeerServer>(new PeerServer(std::move(impl)));
}

void PeerServer::add(PeerAcceptor& acceptor) { impl_->acceptors.push_back(&acceptor); }

void PeerServer::remove(PeerAcceptor& acceptor) {
  std::erase(impl_->acceptors, &acceptor);
  for (auto& [id, entry] : impl_->streams) {
    if (entry.acceptor != &acceptor) continue;
    entry.acceptor = nullptr;
    entry.stream->close();
  }
}

void PeerServer::answer(std::uint64_t stream, HelloVerdict verdict, const Hello& hello) {
  const auto found = impl_->find(stream);
  if (!found) return;
  found->send(to_proto(PeerHello{hello, verdict}));
  if (verdict != HelloVerdict::kAccepted) found->close();
}

void PeerServer::send(std::uint64_t stream, const PeerPayload& payload) {
  if (const auto found = impl_->find(stream)) found->send(to_proto(payload));
}

void PeerServer::drop(std::uint64_t stream) {
  if (const auto found = impl_->find(stream)) found->close();
}

void PeerServer::stop() {
  for (auto& [id, entry] : impl_->streams) {
    entry.acceptor = nullptr;
    entry.stream->close();
  }
  shut_down(impl_->loop, *impl_->server, kStopGrace);
  // What gRPC's last callbacks posted still names this object: it runs before the object goes.
  bool drained = false;
  impl_->loop.post([&drained] { drained = true; });
  static_cast<void>(impl_->loop.run_until([&drained] { return drained; }, kNever));
  impl_->streams.clear();
  impl_->server.reset();
}

// ---- streams that we open ----

namespace {
class Outbound;
}

struct PeerDialer::Impl {
  Impl(net::EventLoop& on, PeerDials& to) : loop(on), events(to), sweeper(on) {}

  void sweep();
  void on_message(const std::shared_ptr<Outbound>& stream, const pb::PeerMessage& message);
  void on_done(const std::shared_ptr<Outbound>& stream, const grpc::Status& status);

  net::EventLoop& loop;
  PeerDials& events;
  std::unordered_map<std::uint64_t, std::shared_ptr<Outbound>> streams;
  /// Hung up, to be cancelled if the other side does not end them too; oldest first.
  std::deque<std::pair<Time, std::uint64_t>> leaving;
  net::Timer sweeper;
  /// Null once the dialler is gone.
  std::shared_ptr<PeerDialer::Impl*> self = std::make_shared<PeerDialer::Impl*>(this);
};

namespace {

class Outbound final : public Stream<grpc::ClientBidiReactor<pb::PeerMessage, pb::PeerMessage>> {
 public:
  static std::shared_ptr<Outbound> start(PeerDialer::Impl& dialer, std::uint64_t attempt,
                                         const std::shared_ptr<grpc::Channel>& channel) {
    auto stream = std::shared_ptr<Outbound>(new Outbound(dialer, attempt));
    stream->keep_ = stream;
    stream->stub_ = pb::Peer::NewStub(channel);
    stream->stub_->async()->Connect(&stream->context_, stream.get());
    stream->AddHold();  // writes start outside of reactions, until RemoveHold()
    stream->StartRead(&stream->incoming_);
    stream->StartCall();
    return stream;
  }
  [[nodiscard]] std::uint64_t attempt() const noexcept { return attempt_; }
  void read_next() { start_read(&incoming_); }
  void close() {
    quiet_ = true;
    close_after_writing();
  }
  void cancel() { context_.TryCancel(); }
  /// On the loop: nobody wants to hear of it any more.
  [[nodiscard]] bool quiet() const noexcept { return quiet_; }
  bool answered = false;  ///< on the loop

 private:
  Outbound(PeerDialer::Impl& dialer, std::uint64_t attempt)
      : dialer_(dialer.self), loop_(dialer.loop), attempt_(attempt) {}

  void OnReadDone(bool ok) override {
    if (!ok) return close_after_writing();
    loop_.post([dialer = dialer_, self = keep_] {
      if (*dialer != nullptr) (*dialer)->on_message(self, self->incoming_);
    });
  }
  void OnWriteDone(bool ok) override { on_written(ok); }
  void OnDone(const grpc::Status& status) override {
    loop_.post([dialer = dialer_, self = keep_, status] {
      if (*dialer != nullptr) (*dialer)->on_done(self, status);
    });
    keep_.reset();
  }
  void abandon() override { cancel(); }
  void finish_writing() override {
    StartWritesDone();
    RemoveHold();
  }

  std::shared_ptr<PeerDialer::Impl*> dialer_;  ///< read and cleared on the loop
  net::EventLoop& loop_;
  std::uint64_t attempt_;
  grpc::ClientContext context_;
  std::unique_ptr<pb::Peer::Stub> stub_;
  pb::PeerMessage incoming_;
  bool quiet_ = false;
  std::shared_ptr<Outbound> keep_;  ///< until OnDone
};

/// gRPC tells only in words what the socket said.
bool machine_answered(const std::string& text) {
  return text.find("Connection refused") != std::string::npos ||
         text.find("Connection reset") != std::string::npos ||
         text.find("Socket closed") != std::string::npos;
}

}  // namespace

void PeerDialer::Impl::on_message(const std::shared_ptr<Outbound>& stream,
                                  const pb::PeerMessage& message) {
  if (stream->quiet()) return stream->read_next();  // until the other side ends too
  auto payload = from_proto(message);
  auto* answer = payload ? std::get_if<PeerHello>(&*payload) : nullptr;
  if (!payload || stream->answered == (answer != nullptr)) return stream->cancel();
  if (answer != nullptr) {
    stream->answered = true;
    events.on_answer(stream->attempt(), std::move(*answer));
  } else {
    events.on_dial_message(stream->attempt(), std::move(*payload));
  }
  stream->read_next();
}

void PeerDialer::Impl::on_done(const std::shared_ptr<Outbound>& stream,
                               const grpc::Status& status) {
  streams.erase(stream->attempt());
  if (stream->quiet()) return;
  const std::string why = status.ok() ? "the other side closed the stream" : status.error_message();
  events.on_dial_closed(stream->attempt(), why, status.ok() || machine_answered(why));
}

PeerDialer::PeerDialer(net::EventLoop& loop, PeerDials& events)
    : impl_(std::make_unique<Impl>(loop, events)) {}

PeerDialer::~PeerDialer() {
  cancel_all();
  *impl_->self = nullptr;
}

void PeerDialer::dial(std::uint64_t attempt, const std::string& address, std::uint16_t port,
                      const std::optional<Security>& security, const Hello& hello) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // a ping for each message, of no use here
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageBytesMax);
  if (security) arguments.SetSslTargetNameOverride(security->expected_name);
  const bool v6 = address.find(':') != std::string::npos;
  const std::string target = (v6 ? "ipv6:" : "ipv4:") + net::endpoint_text(address, port);
  const auto channel = grpc::CreateCustomChannel(target, client_credentials(security), arguments);
  const auto stream = Outbound::start(*impl_, attempt, channel);
  impl_->streams.emplace(attempt, stream);
  stream->send(to_proto(PeerHello{hello, HelloVerdict::kAccepted}));
}

void PeerDialer::send(std::uint64_t attempt, const PeerPayload& payload) {
  const auto found = impl_->streams.find(attempt);
  if (found != impl_->streams.end()) found->second->send(to_proto(payload));
}

void PeerDialer::hang_up(std::uint64_t attempt) {
  const auto found = impl_->streams.find(attempt);
  if (found == impl_->streams.end()) return;
  const bool answered = found->second->answered;
  found->second->close();
  if (!answered) return found->second->cancel();  // no connection yet, or nobody who answers
  impl_->leaving.emplace_back(impl_->loop.now() + kHangUpGrace, attempt);
  if (!impl_->sweeper.armed()) impl_->sweep();
}

void PeerDialer::Impl::sweep() {
  const Time now = loop.now();
  for (; !leaving.empty() && leaving.front().first <= now; leaving.pop_front()) {
    const auto found = streams.find(leaving.front().second);
    if (found != streams.end()) found->second->cancel();
  }
  if (!leaving.empty()) sweeper.arm(leaving.front().first, [this] { sweep(); });
}

std::size_t PeerDialer::open_streams() const noexcept { return impl_->streams.size(); }

void PeerDialer::cancel_all() {
  for (const auto& [attempt, stream] : impl_->streams) {
    stream->close();
    stream->cancel();
  }
}

}  // namespace imex::domain
