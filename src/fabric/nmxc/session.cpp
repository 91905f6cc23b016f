#include "session.hpp"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include "base/text.hpp"
#include "fabric/check.hpp"

namespace imex::fabric::nmxc {
namespace {

constexpr std::chrono::milliseconds kPingPatience(15'000);

struct Version {
  pb::ProtoMsgMajorVersion major;
  pb::ProtoMsgMinorVersion minor;
};
constexpr Version version_of(Dialect dialect) noexcept {
  return dialect == Dialect::kDraft ? Version{pb::PROTO_MAJOR_DRAFT, pb::PROTO_MINOR_DRAFT}
                                    : Version{pb::PROTO_MAJOR_CURRENT, pb::PROTO_MINOR_CURRENT};
}

/// Whether a change that ended with this transport status certainly did nothing.
bool refused_before_effect(grpc::StatusCode code) noexcept {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNIMPLEMENTED:
      return true;
    default:
      return false;
  }
}

Errc errc_of_status(grpc::StatusCode code) noexcept {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
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
      return Errc::kUnsupported;
    case grpc::StatusCode::DATA_LOSS:
      return Errc::kDataLoss;
    default:
      return Errc::kInternal;
  }
}

std::string hint_of(const grpc::Status& status, const Endpoint& endpoint) {
  const std::string& text = status.error_message();
  const auto says = [&text](std::string_view word) { return text.find(word) != std::string::npos; };
  if (says("andshake") || says("SSL") || says("certificate") || says("Peer name")) {
    return endpoint.tls ? "compare authority, client certificate and server name with what the "
                          "switch tray has, and "
                          "their dates"
                        : "does the controller want TLS? then write https:// in the endpoint";
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE)
    return fmt::format(
        "is {} the controller's address, and its cluster function enabled on that tray?",
        endpoint.text);
  return {};
}

std::shared_ptr<grpc::Channel> make_channel(const Endpoint& endpoint,
                                            const Session::Settings& settings,
                                            const TlsMaterial& material) {
  grpc::ChannelArguments arguments;
  // A connection of our own, so that a session is one, and so that gRPC's back-off is not beneath
  // ours.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // a change must not be sent twice
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<std::size_t>(settings.answer_bytes_max, INT32_MAX)));
  if (settings.keepalive.count() > 0) {
    const auto interval_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(settings.keepalive).count();
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                     static_cast<int>(std::clamp<std::int64_t>(interval_ms, 1, INT32_MAX)));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kPingPatience.count()));
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit of our own
  }
  if (!endpoint.tls)
    return grpc::CreateCustomChannel(endpoint.target(), grpc::InsecureChannelCredentials(),
                                     arguments);
  arguments.SetSslTargetNameOverride(settings.server_name.empty() ? endpoint.host
                                                                  : settings.server_name);
  return grpc::CreateCustomChannel(endpoint.target(), make_credentials(material), arguments);
}

}  // namespace

std::chrono::system_clock::time_point wall_deadline(const CallScope& scope) {
  // Far deadlines would overflow the nanoseconds of the other clock.
  constexpr std::chrono::hours kFar(24 * 365);
  const auto left = std::min<std::chrono::steady_clock::duration>(
      scope.deadline - std::chrono::steady_clock::now(), kFar);
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(left);
}

Session::Session(Endpoint endpoint, Settings settings, TlsMaterial material)
    : endpoint_(std::move(endpoint)),
      settings_(std::move(settings)),
      material_(std::move(material)),
      channel_(make_channel(endpoint_, settings_, material_)),
      current_(pb::NMX_Controller::NewStub(channel_)),
      draft_(pb::NMXController::NewStub(channel_)) {}

Outcome<std::shared_ptr<Session>> Session::open(const Endpoint& endpoint, const Settings& settings,
                                                TlsMaterial material, const CallScope& scope) {
  auto session = std::shared_ptr<Session>(new Session(endpoint, settings, std::move(material)));
  if (auto introduced = session->introduce(scope); !introduced)
    return tl::unexpected(std::move(introduced).error());
  return session;
}

CallOutcome<pb::ServerHello> Session::hello_in(Dialect dialect, const CallScope& scope) {
  pb::ClientHello request;
  request.set_major_version(version_of(dialect).major);
  request.set_minor_version(version_of(dialect).minor);
  dialect_ = dialect;
  return call(kHello, std::move(request), Access::kRead, scope,
              fmt::format("say Hello to {}", endpoint_.text));
}

Outcome<void> Session::introduce(const CallScope& scope) {
  const Dialect first = settings_.dialect == Dialect::kDraft ? Dialect::kDraft : Dialect::kCurrent;
  auto answer = hello_in(first, scope);
  const auto wrong_version = [&answer] {
    return !answer && (answer.error().failure.error.code == Errc::kUnsupported ||
                       answer.error().failure.code == NmxCode::kVersionMismatch);
  };
  if (wrong_version() && settings_.dialect == Dialect::kAuto) {
    auto in_draft = hello_in(Dialect::kDraft, scope);
    if (in_draft) answer = std::move(in_draft);
  }
  if (wrong_version()) {
    Failure failure = std::move(answer).error().failure;
    failure.error.code = Errc::kVersionMismatch;
    failure.error.message +=
        settings_.dialect == Dialect::kAuto
            ? "; this client speaks protocol 2.20 and the draft 1.4"
            : fmt::format("; this client was told to speak protocol {}",
                          first == Dialect::kDraft ? "1.4 (draft) only" : "2.20 only");
    failure.error.hint = "is this a fabric controller (NMX-C), and of which release?";
    return tl::unexpected(std::move(failure));
  }
  if (!answer) return tl::unexpected(std::move(answer).error().failure);

  const pb::ServerHeader& header = answer->server_header();
  auto domain = Uuid::parse(header.domain_uuid());
  auto instance = bounded_text(header.app_uuid(), kAnswerTextMax, "instance UUID");
  auto version = bounded_text(header.app_ver(), kAnswerTextMax, "controller version");
  const auto unfit = [this](Error error) {
    return tl::unexpected(
        Failure{.error = std::move(error).context(fmt::format("Hello of {}", endpoint_.text))});
  };
  if (!domain) return unfit(std::move(domain).error());
  if (domain->is_nil()) return unfit({Errc::kDataLoss, "the domain UUID is all zeros"});
  if (!instance) return unfit(std::move(instance).error());
  if (!version) return unfit(std::move(version).error());
  identity_ = {*domain, *std::move(instance), *std::move(version)};
  introduced_ = true;
  return {};
}

CallOutcome<void> Session::hello(const CallScope& scope) {
  pb::ClientHello request;
  request.set_major_version(version_of(dialect_).major);
  request.set_minor_version(version_of(dialect_).minor);
  auto answer = call(kHello, std::move(request), Access::kRead, scope,
                     fmt::format("say Hello to {}", endpoint_.text));
  if (!answer) return tl::unexpected(std::move(answer).error());
  return {};
}

bool Session::usable() const {
  return !retired() && channel_->GetState(false) == GRPC_CHANNEL_READY;
}

tl::unexpected<CallError> Session::transport_error(const grpc::Status& status, Access access,
                                                   const CallScope& scope,
                                                   std::string_view what) const {
  CallError error;
  Failure& failure = error.failure;
  const grpc::StatusCode code = status.error_code();
  failure.error = {
      errc_of_status(code),
      fmt::format("{}: {} (gRPC status {}, {})", what, printable(status.error_message()),
                  static_cast<int>(code), endpoint_.text),
      hint_of(status, endpoint_)};
  if (scope.cancelled()) {
    failure.error = {Errc::kAborted, fmt::format("{}: cancelled", what)};
  } else if (code == grpc::StatusCode::DEADLINE_EXCEEDED) {
    failure.error.message = fmt::format("{}: no answer from {} in time", what, endpoint_.text);
  }
  if (access == Access::kChange && !refused_before_effect(code)) failure.effect = Effect::kUnknown;
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      failure.retry = NmxRetry::kBackOff;
      error.next = scope.cancelled() ? Next::kReturn : Next::kOtherEndpoint;
      break;
    case grpc::StatusCode::CANCELLED:  // by the other side, unless it was us
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::ABORTED:
      failure.retry = NmxRetry::kBackOff;
      break;
    default:
      break;
  }
  return tl::unexpected(std::move(error));
}

CallOutcome<void> Session::check_header(const pb::ServerHeader* header, Access access,
                                        std::string_view what) {
  const auto unfit = [&](Errc code, std::string message, std::string hint) {
    CallError error;
    error.failure.error = {code, fmt::format("{}: {}", what, message), std::move(hint)};
    if (access == Access::kChange) error.failure.effect = Effect::kUnknown;
    return tl::unexpected(std::move(error));
  };
  if (header == nullptr)
    return unfit(Errc::kDataLoss, fmt::format("the answer of {} has no header", endpoint_.text),
                 "is this a fabric controller (NMX-C)?");

  if (introduced_ && !header->domain_uuid().empty()) {
    const auto domain = Uuid::parse(header->domain_uuid().substr(0, 64));
    if (!domain || *domain != identity_.domain_uuid) {
      retire();
      return unfit(Errc::kFailedPrecondition,
                   fmt::format("{} answers for domain {}, Hello was for {}", endpoint_.text,
                               printable(header->domain_uuid().substr(0, 64)),
                               identity_.domain_uuid.to_string()),
                   "the address belongs to another rack now: correct the endpoint");
    }
    // A restart or take-over beneath the connection: this answer holds, the next call says Hello
    // again.
    if (!header->app_uuid().empty() && header->app_uuid() != identity_.instance) retire();
  }

  const auto code = static_cast<NmxCode>(header->return_code());
  if (code == NmxCode::kSuccess) return {};
  const NmxCodeInfo info = nmx_code_info(code);
  CallError error;
  error.failure = {.error = nmx_error(code, what),
                   .effect = access == Access::kChange ? info.effect : Effect::kNone,
                   .code = code,
                   .retry = info.retry};
  if (info.sense == NmxSense::kNoSession) {
    error.next = Next::kHelloAgain;
  } else if (code == NmxCode::kUninitialized || code == NmxCode::kNotConfigured ||
             code == NmxCode::kNotReady) {
    error.next = Next::kOtherEndpoint;  // it may be the wrong tray
  }
  return tl::unexpected(std::move(error));
}

}  // namespace imex::fabric::nmxc
