// Streams that other daemons open: one gRPC server, a reactor for each stream.
#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <imex/peer/v1/peer.grpc.pb.h>

#include "grpc_listener.hpp"
#include "grpc_server.hpp"
#include "net/resolver.hpp"
#include "peer_service.hpp"
#include "peer_stream.hpp"
#include "server_socket.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::peer::v1;

constexpr std::chrono::milliseconds kStopGrace{300};

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

class Inbound;

}  // namespace

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
  std::unique_ptr<GrpcListener> listener;
  std::shared_ptr<PeerServer::Impl*> self = std::make_shared<PeerServer::Impl*>(this);
  std::atomic<std::uint64_t> last_stream{0};  ///< only counts: relaxed
};

namespace {

/// Lives until gRPC's OnDone and the loop's last use.
class Inbound final : public PeerStream<grpc::ServerBidiReactor<pb::PeerMessage, pb::PeerMessage>> {
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
  IMEX_TRY(ServerSocket socket, listen_tcp(address, port));
  auto impl = std::make_unique<Impl>(loop, log);
  grpc::ServerBuilder builder;
  set_server_defaults(builder, kPeerMessageBytesMax);
  impl->listener =
      std::make_unique<GrpcListener>(loop, std::move(socket), GrpcListener::Share::kPeers,
                                     std::move(log), builder, server_credentials(tls));
  builder.RegisterService(impl.get());
  impl->server = builder.BuildAndStart();
  if (!impl->server) return fail(Errc::kInternal, "peer service: gRPC did not start");
  impl->listener->start();
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
  impl_->listener.reset();
  shut_down(impl_->loop, *impl_->server, kStopGrace);
  // What gRPC's last callbacks posted still names this object: it runs before the object goes.
  bool drained = false;
  impl_->loop.post([&drained] { drained = true; });
  static_cast<void>(impl_->loop.run_until([&drained] { return drained; }, kNever));
  impl_->streams.clear();
  impl_->server.reset();
}

}  // namespace imex::domain
