#include "nmxc_service.hpp"

#include <deque>
#include <type_traits>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <nmx_c/draft.grpc.pb.h>
#include <nmx_c/nmx_c.grpc.pb.h>

#include "nmxc_handlers.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::rack {

namespace {

using Access = Domain::Access;
using nmxc::Moment;

/// A call that is not answered at once: later, or, in a black hole, never. Whoever comes first,
/// the delay or the end of the call, finishes it.
class HeldCall final : public grpc::ServerUnaryReactor {
 public:
  /// What the timer holds: the call itself may be gone by then.
  struct Handle {
    Mutex mutex;
    HeldCall* call IMEX_GUARDED_BY(mutex) = nullptr;
    void finish(const grpc::Status& status) {
      HeldCall* found = nullptr;
      {
        MutexLock lock(mutex);
        found = std::exchange(call, nullptr);
      }
      if (found != nullptr) found->Finish(status);
    }
  };
  HeldCall() : handle_(std::make_shared<Handle>()) {
    MutexLock lock(handle_->mutex);
    handle_->call = this;
  }
  [[nodiscard]] const std::shared_ptr<Handle>& handle() const noexcept { return handle_; }

 private:
  void OnCancel() override { handle_->finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
  std::shared_ptr<Handle> handle_;
};

/// One stream, of either dialect. Notes wait in a bounded queue while one is being written.
template <class Note>
class Stream final : public grpc::ServerWriteReactor<Note>, public Subscriber {
 public:
  Stream(net::EventLoop& loop, DomainHost& host) : loop_(loop), host_(host) {}
  void keep(std::shared_ptr<Stream> self) { keep_ = std::move(self); }

  void tell(const ::nmx_c::ServerNotification& note) override {
    Note fitted;
    if (!fit(note, fitted)) return;
    {
      MutexLock lock(mutex_);
      if (waiting_.size() >= kQueueMax) lagging_ = ending_ = true;  // it must read everything anew
      if (!ending_) waiting_.push_back(std::move(fitted));
    }
    next();
  }
  void end() override {
    {
      MutexLock lock(mutex_);
      ending_ = true;
    }
    next();
  }
  /// Instead of everything else.
  void refuse(const grpc::Status& status) {
    {
      MutexLock lock(mutex_);
      finished_ = true;
    }
    this->Finish(status);
  }

 private:
  static constexpr std::size_t kQueueMax = 256;

  /// False: this dialect has no such note.
  static bool fit(const ::nmx_c::ServerNotification& note, Note& fitted) {
    if constexpr (std::is_same_v<Note, ::nmx_c::ServerNotification>) {
      fitted = note;
      return true;
    } else {
      if (note.has_domain_state_info() || note.has_init_done()) return false;
      if (note.has_set_admin_state_response()) {
        const auto& from = note.set_admin_state_response();
        auto& to = *fitted.mutable_set_admin_state_response();
        *to.mutable_server_header() = from.server_header();
        *to.mutable_transceiver_identifier() = from.admin_state_entry().transceiver_identifier();
        to.set_admin_state(from.admin_state_entry().admin_state());
        return true;
      }
      return fitted.ParseFromString(note.SerializeAsString());  // the same numbers in both dialects
    }
  }

  void next() {
    const Note* write = nullptr;
    bool lagging = false;
    {
      MutexLock lock(mutex_);
      if (writing_ || finished_ || (waiting_.empty() && !ending_)) return;
      if (!waiting_.empty() && !cancelled_ && !lagging_) {
        writing_ = true;
        current_ = std::move(waiting_.front());
        waiting_.pop_front();
        write = &current_;
      } else if (ending_) {
        finished_ = true;
        lagging = lagging_;
      } else {
        return;
      }
    }
    if (write != nullptr) {
      this->StartWrite(write);
    } else if (lagging) {
      this->Finish(
          {grpc::StatusCode::RESOURCE_EXHAUSTED, "too slow: subscribe again and read everything"});
    } else {
      this->Finish({grpc::StatusCode::UNAVAILABLE, "the controller has ended the stream"});
    }
  }
  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) ending_ = cancelled_ = true;
    }
    next();
  }
  void OnCancel() override {
    {
      MutexLock lock(mutex_);
      ending_ = cancelled_ = true;
    }
    next();
  }
  void OnDone() override {
    // Not here: the host's lock may be held by whoever called Finish.
    loop_.post([host = &host_, self = std::move(keep_)] {
      MutexLock lock(host->mutex);
      host->unsubscribe(self.get());
    });
  }

  net::EventLoop& loop_;
  DomainHost& host_;
  std::shared_ptr<Stream> keep_;  ///< until OnDone
  Mutex mutex_;
  std::deque<Note> waiting_ IMEX_GUARDED_BY(mutex_);
  Note current_ IMEX_GUARDED_BY(mutex_);  ///< gRPC reads it until OnWriteDone
  bool writing_ IMEX_GUARDED_BY(mutex_) = false;
  bool ending_ IMEX_GUARDED_BY(mutex_) = false;
  bool lagging_ IMEX_GUARDED_BY(mutex_) = false;
  bool cancelled_ IMEX_GUARDED_BY(mutex_) = false;
  bool finished_ IMEX_GUARDED_BY(mutex_) = false;
};

template <class Request, class Answer>
void echo_context(const Request& request, Answer& answer) {
  if constexpr (requires {
                  request.has_context();
                  answer.mutable_context();
                }) {
    if (request.has_context()) *answer.mutable_context() = request.context();
  }
}

/// What other subscribers hear of a change; nothing for reads.
template <class Answer>
bool note_of(const Answer& answer, ::nmx_c::ServerNotification& note) {
  if constexpr (std::is_same_v<Answer, ::nmx_c::CreatePartitionResponse>) {
    *note.mutable_create_partition_response() = answer;
  } else if constexpr (std::is_same_v<Answer, ::nmx_c::DeletePartitionResponse>) {
    *note.mutable_delete_partition_response() = answer;
  } else if constexpr (std::is_same_v<Answer, ::nmx_c::UpdatePartitionResponse>) {
    *note.mutable_update_partition_response() = answer;
  } else if constexpr (std::is_same_v<Answer, ::nmx_c::SetAdminStateResponse>) {
    *note.mutable_set_admin_state_response() = answer;
  } else if constexpr (std::is_same_v<Answer, ::nmx_c::DraftSetAdminStateResponse>) {
    auto& current = *note.mutable_set_admin_state_response();
    *current.mutable_server_header() = answer.server_header();
    current.mutable_admin_state_entry()->set_admin_state(answer.admin_state());
    *current.mutable_admin_state_entry()->mutable_transceiver_identifier() =
        answer.transceiver_identifier();
  } else {
    return false;
  }
  return true;
}

/// What the calls of both dialects have in common: session, faults, lock, header.
class Calls {
 public:
  Calls(net::EventLoop& loop, Delays& delays, DomainHost& host, bool second, bool draft)
      : loop_(loop), delays_(delays), host_(host), second_(second), draft_(draft) {}

  template <class Request, class Answer, class Handle>
  grpc::ServerUnaryReactor* run(grpc::CallbackServerContext* context, std::string_view method,
                                Access access, const Request* request, Answer* answer,
                                Handle handle) {
    Nanos delay{0};
    {
      MutexLock lock(host_.mutex);
      const Moment moment{os::now(), std::chrono::system_clock::now()};
      host_.domain.advance(moment.now);
      if (const auto wrong = unserved()) return finish(context, *wrong);
      if (host_.domain.befalls(FaultKind::kBlackHole, {method, 0}, moment.now))
        return new HeldCall();
      if (const auto slow = host_.domain.befalls(FaultKind::kSlow, {method, 0}, moment.now)) {
        delay = slow->delay_or_default();
      }
      ReturnCode code = host_.domain.admit(request->gateway_id(), context->peer(), access);
      if (code == ReturnCode::kSuccess) code = handle(host_.domain, *request, *answer, moment);
      echo_context(*request, *answer);
      nmxc::fill_header(host_.domain, instance(), code, *answer->mutable_server_header());
      ::nmx_c::ServerNotification note;
      const bool told = code == ReturnCode::kSuccess && note_of(*answer, note);
      host_.settle(told ? &note : nullptr, request->gateway_id());
    }
    return finish_after(context, delay);
  }

  grpc::ServerUnaryReactor* hello(grpc::CallbackServerContext* context,
                                  const ::nmx_c::ClientHello* request,
                                  ::nmx_c::ServerHello* answer) {
    Nanos delay{0};
    {
      MutexLock lock(host_.mutex);
      const Time now = os::now();
      Domain& domain = host_.domain;
      domain.advance(now);
      if (const auto wrong = unserved()) return finish(context, *wrong);
      if (domain.befalls(FaultKind::kBlackHole, {"Hello", 0}, now)) return new HeldCall();
      if (const auto slow = domain.befalls(FaultKind::kSlow, {"Hello", 0}, now))
        delay = slow->delay_or_default();
      constexpr std::uint32_t kDraftMajor = 1, kDraftMinor = 4;
      auto major = static_cast<std::uint32_t>(request->major_version());
      if (draft_) major = major == kDraftMajor ? domain.major_version() : 0;
      const ReturnCode code = domain.hello(request->gateway_id(), context->peer(), major);
      nmxc::fill_header(domain, instance(), code, *answer->mutable_server_header());
      answer->set_major_version(static_cast<::nmx_c::ProtoMsgMajorVersion>(
          draft_ ? kDraftMajor : domain.major_version()));
      answer->set_minor_version(static_cast<::nmx_c::ProtoMsgMinorVersion>(
          draft_ ? kDraftMinor : domain.personality().minor));
      if (code == ReturnCode::kSuccess) {
        ::nmx_c::KeyValPair& component = *answer->add_components_ver();
        component.set_key("imex-rack");
        component.set_value(domain.version());
        answer->set_host_os_details("simulated rack");
      }
      host_.settle(nullptr, {});
    }
    return finish_after(context, delay);
  }

  template <class Note, class Request>
  grpc::ServerWriteReactor<Note>* subscribe(grpc::CallbackServerContext* context,
                                            const Request* request) {
    auto stream = std::make_shared<Stream<Note>>(loop_, host_);
    stream->keep(stream);
    MutexLock lock(host_.mutex);
    Domain& domain = host_.domain;
    domain.advance(os::now());
    if (const auto wrong = unserved()) {
      stream->refuse(*wrong);
      return stream.get();
    }
    if (!domain.personality().subscribe) {
      stream->refuse({grpc::StatusCode::UNIMPLEMENTED, "Subscribe is not served"});
      return stream.get();
    }
    if (host_.subscriber_count() >= DomainHost::kSubscribersMax) {
      stream->refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many subscribers"});
      return stream.get();
    }
    const ReturnCode code = domain.admit(request->gateway_id(), context->peer(), Access::kState);
    ::nmx_c::ServerNotification first;
    nmxc::fill_header(domain, instance(), code,
                      *first.mutable_subscription_response()->mutable_server_header());
    stream->gateway = request->gateway_id();
    stream->own_changes = request->notify_on_self_change();
    stream->tell(first);
    if (code != ReturnCode::kSuccess) {
      stream->end();
      return stream.get();
    }
    if constexpr (requires { request->heart_beat_rate(); }) {
      stream->beat = std::chrono::seconds(request->heart_beat_rate());
      if (stream->beat.count() != 0) stream->next_beat = os::now() + stream->beat;
    }
    host_.subscribe(stream);
    return stream.get();
  }

 private:
  /// The status of a call that this dialect does not answer under the fault `version`.
  std::optional<grpc::Status> unserved() IMEX_REQUIRES(host_.mutex) {
    const Fault* version = host_.domain.faults().holds(FaultKind::kVersion);
    if (draft_ || version == nullptr || version->text != "draft-only") return std::nullopt;
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown service nmx_c.NMX_Controller");
  }
  Uuid instance() IMEX_REQUIRES(host_.mutex) {
    Uuid id = host_.domain.instance();
    if (second_) id.bytes[0] ^= std::byte{0xFF};
    return id;
  }
  static grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context,
                                          const grpc::Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  grpc::ServerUnaryReactor* finish_after(grpc::CallbackServerContext* context, Nanos delay) {
    if (delay.count() == 0) return finish(context, grpc::Status::OK);
    auto* held = new HeldCall();  // deletes itself in OnDone
    delays_.after(delay, [handle = held->handle()] { handle->finish(grpc::Status::OK); });
    return held;
  }

  net::EventLoop& loop_;
  Delays& delays_;
  DomainHost& host_;
  const bool second_, draft_;
};

constexpr auto kHandle = [](Domain& domain, const auto& request, auto& answer,
                            const Moment& moment) {
  return nmxc::handle(domain, request, answer, moment);
};

// The calls whose messages are equal in both dialects, and those that differ by their messages
// only.
#define IMEX_NMXC_CALL(access, method, request_type, answer_type)                  \
  grpc::ServerUnaryReactor* method(grpc::CallbackServerContext* context,           \
                                   const ::nmx_c::request_type* request,           \
                                   ::nmx_c::answer_type* answer) override {        \
    return calls_.run(context, #method, Access::access, request, answer, kHandle); \
  }
#define IMEX_NMXC_UPDATE(method, function)                                              \
  grpc::ServerUnaryReactor* method(grpc::CallbackServerContext* context,                \
                                   const ::nmx_c::UpdatePartitionRequest* request,      \
                                   ::nmx_c::UpdatePartitionResponse* answer) override { \
    return calls_.run(context, #method, Access::kChange, request, answer,               \
                      [](auto&... arguments) { return nmxc::function(arguments...); }); \
  }
#define IMEX_NMXC_SHARED_CALLS                                                                     \
  grpc::ServerUnaryReactor* Hello(grpc::CallbackServerContext* context,                            \
                                  const ::nmx_c::ClientHello* request,                             \
                                  ::nmx_c::ServerHello* answer) override {                         \
    return calls_.hello(context, request, answer);                                                 \
  }                                                                                                \
  IMEX_NMXC_CALL(kChange, FactoryReset, FactoryResetRequest, ReturnCode)                           \
  IMEX_NMXC_CALL(kRead, GetStaticConfig, GetStaticConfigRequest, StaticConfigResponse)             \
  IMEX_NMXC_CALL(kChange, SetStaticConfig, SetStaticConfigRequest, ReturnCode)                     \
  IMEX_NMXC_CALL(kState, GetDomainProperties, GetDomainPropertiesRequest, DomainProperties)        \
  IMEX_NMXC_CALL(kState, GetDomainStateInfo, GetDomainStateInfoRequest, DomainStateInfo)           \
  IMEX_NMXC_CALL(kRead, GetComputeNodeCount, GetComputeNodeCountRequest,                           \
                 GetComputeNodeCountResponse)                                                      \
  IMEX_NMXC_CALL(kRead, GetComputeNodeLocationList, GetComputeNodeLocationListRequest,             \
                 GetComputeNodeLocationListResponse)                                               \
  IMEX_NMXC_CALL(kRead, GetComputeNodeInfoList, GetComputeNodeInfoListRequest,                     \
                 GetComputeNodeInfoListResponse)                                                   \
  IMEX_NMXC_CALL(kRead, GetGpuInfoList, GetGpuInfoListRequest, GetGpuInfoListResponse)             \
  IMEX_NMXC_CALL(kRead, GetSwitchNodeCount, GetSwitchNodeCountRequest, GetSwitchNodeCountResponse) \
  IMEX_NMXC_CALL(kRead, GetSwitchNodeLocationList, GetSwitchNodeLocationListRequest,               \
                 GetSwitchNodeLocationListResponse)                                                \
  IMEX_NMXC_CALL(kRead, GetSwitchNodeInfoList, GetSwitchNodeInfoListRequest,                       \
                 GetSwitchNodeInfoListResponse)                                                    \
  IMEX_NMXC_CALL(kRead, GetSwitchInfoList, GetSwitchInfoListRequest, GetSwitchInfoListResponse)    \
  IMEX_NMXC_CALL(kRead, GetPartitionCount, GetPartitionCountRequest, GetPartitionCountResponse)    \
  IMEX_NMXC_CALL(kRead, GetPartitionIdList, GetPartitionIdListRequest, GetPartitionIdListResponse) \
  IMEX_NMXC_CALL(kRead, GetPartitionInfoList, GetPartitionInfoListRequest,                         \
                 GetPartitionInfoListResponse)                                                     \
  IMEX_NMXC_CALL(kChange, CreatePartition, CreatePartitionRequest, CreatePartitionResponse)        \
  IMEX_NMXC_CALL(kChange, DeletePartition, DeletePartitionRequest, DeletePartitionResponse)        \
  IMEX_NMXC_UPDATE(AddGpusToPartition, add_gpus)                                                   \
  IMEX_NMXC_UPDATE(RemoveGpusFromPartition, remove_gpus)                                           \
  IMEX_NMXC_CALL(kRead, GetConnCount, GetConnCountRequest, GetConnCountResponse)                   \
  IMEX_NMXC_CALL(kRead, GetConnInfoList, GetConnInfoListRequest, GetConnInfoListResponse)          \
  IMEX_NMXC_CALL(kRead, GetConnInfoCombined, GetConnInfoCombinedRequest, ConnInfoCombined)

class CurrentService final : public ::nmx_c::NMX_Controller::CallbackService {
 public:
  explicit CurrentService(Calls calls) : calls_(calls) {}
  IMEX_NMXC_SHARED_CALLS
  IMEX_NMXC_CALL(kRead, GetAdminState, GetAdminStateRequest, GetAdminStateResponse)
  IMEX_NMXC_CALL(kChange, SetAdminState, SetAdminStateRequest, SetAdminStateResponse)
  IMEX_NMXC_CALL(kRead, GetTopologyInfo, GetTopologyInfoRequest, FmTopologyInfo)
  IMEX_NMXC_CALL(kRead, GetStateReport, GetStateReportRequest, GetStateReportResponse)
  grpc::ServerWriteReactor<::nmx_c::ServerNotification>* Subscribe(
      grpc::CallbackServerContext* context, const ::nmx_c::SubscribeRequest* request) override {
    return calls_.subscribe<::nmx_c::ServerNotification>(context, request);
  }

 private:
  Calls calls_;
};

class DraftService final : public ::nmx_c::NMXController::CallbackService {
 public:
  explicit DraftService(Calls calls) : calls_(calls) {}
  IMEX_NMXC_SHARED_CALLS
  IMEX_NMXC_CALL(kRead, GetAdminState, GetAdminStateRequest, DraftGetAdminStateResponse)
  IMEX_NMXC_CALL(kChange, SetAdminState, DraftSetAdminStateRequest, DraftSetAdminStateResponse)
  IMEX_NMXC_CALL(kRead, GetTopologyInfo, GetTopologyInfoRequest, DraftFmTopologyInfo)
  grpc::ServerWriteReactor<::nmx_c::DraftServerNotification>* Subscribe(
      grpc::CallbackServerContext* context,
      const ::nmx_c::DraftSubscribeRequest* request) override {
    return calls_.subscribe<::nmx_c::DraftServerNotification>(context, request);
  }

 private:
  Calls calls_;
};

#undef IMEX_NMXC_CALL
#undef IMEX_NMXC_UPDATE
#undef IMEX_NMXC_SHARED_CALLS

Result<std::shared_ptr<grpc::ServerCredentials>> credentials(const TlsFiles& tls) {
  if (tls.certificate.empty() && tls.key.empty() && tls.authority.empty())
    return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  IMEX_TRY(pair.private_key, os::read_file(tls.key));
  IMEX_TRY(pair.cert_chain, os::read_file(tls.certificate));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!tls.authority.empty()) {
    IMEX_TRY(options.pem_root_certs, os::read_file(tls.authority));
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

}  // namespace

void Delays::after(Nanos delay, std::function<void()> work) {
  loop_.post([this, due = os::now() + delay, work = std::move(work)]() mutable {
    due_.emplace(due, std::move(work));
    arm();
  });
}

void Delays::arm() {
  if (due_.empty()) return timer_.cancel();
  timer_.arm(due_.begin()->first, [this] {
    while (!due_.empty() && due_.begin()->first <= loop_.now()) {
      const auto work = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      work();
    }
    arm();
  });
}

struct NmxcService::Impl {
  Impl(net::EventLoop& loop, Delays& delays, DomainHost& host, bool second)
      : current(Calls(loop, delays, host, second, false)),
        draft(Calls(loop, delays, host, second, true)) {}
  CurrentService current;
  DraftService draft;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

Result<std::unique_ptr<NmxcService>> NmxcService::start(net::EventLoop& loop, Delays& delays,
                                                        DomainHost& host,
                                                        const std::string& address,
                                                        std::uint16_t port, const TlsFiles& tls,
                                                        bool second) {
  IMEX_TRY(const auto secured, credentials(tls));
  auto impl = std::make_unique<Impl>(loop, delays, host, second);
  bool draft_too = false;
  {
    MutexLock lock(host.mutex);
    draft_too = host.domain.personality().draft_too;
    // `version` can leave a client with the draft dialect alone: it must be there to be found.
    draft_too = draft_too || host.domain.faults().holds(FaultKind::kVersion) != nullptr;
  }
  constexpr int kPingMs = 5000;  // clients ping every 10 s, with and without calls
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  builder.AddListeningPort(fmt::format("{}:{}", address, port), secured, &impl->port);
  builder.RegisterService(&impl->current);
  if (draft_too) builder.RegisterService(&impl->draft);
  impl->server = builder.BuildAndStart();
  if (!impl->server || impl->port == 0) {
    return fail(Errc::kAlreadyExists,
                fmt::format("listen on {}:{}: the address is taken, or TLS files do not fit",
                            address, port));
  }
  return std::unique_ptr<NmxcService>(new NmxcService(std::move(impl)));
}

NmxcService::NmxcService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

NmxcService::~NmxcService() {
  if (!impl_->server) return;
  impl_->server->Shutdown(std::chrono::system_clock::now());
  impl_->server->Wait();
}

std::uint16_t NmxcService::port() const noexcept { return static_cast<std::uint16_t>(impl_->port); }

}  // namespace imex::rack
