// Streams that this daemon opens to others: a brand-new channel and a reactor for each attempt.
#include <deque>
#include <unordered_map>

#include <grpcpp/grpcpp.h>
#include <imex/peer/v1/peer.grpc.pb.h>

#include "net/resolver.hpp"
#include "peer_service.hpp"
#include "peer_stream.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::peer::v1;

constexpr Nanos kHangUpGrace = std::chrono::seconds(1);

std::shared_ptr<grpc::ChannelCredentials> client_credentials(
    const std::optional<PeerDialer::Security>& security) {
  if (!security) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security->identity.authority;
  options.pem_private_key = security->identity.key;
  options.pem_cert_chain = security->identity.certificate;
  return grpc::SslCredentials(options);
}

class Outbound;

}  // namespace

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

class Outbound final
    : public PeerStream<grpc::ClientBidiReactor<pb::PeerMessage, pb::PeerMessage>> {
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
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kPeerMessageBytesMax);
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
