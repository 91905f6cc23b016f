#include "client.hpp"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include "base/text.hpp"
#include "os/file.hpp"

namespace imex::admin {
namespace {

constexpr int kAnswerBytesMax = 16 << 20;
constexpr std::size_t kPemBytesMax = 1 << 20;

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
      return Errc::kUnsupported;
    case grpc::StatusCode::DATA_LOSS:
      return Errc::kDataLoss;
    default:
      return Errc::kInternal;
  }
}

struct Target {
  std::string name;
  bool tls = false;
};

Result<Target> target_of(const std::string& url) {
  if (url.starts_with("unix:")) return Target{url, false};
  for (const auto& [scheme, tls] : {std::pair{"https://", true}, {"http://", false}}) {
    if (!url.starts_with(scheme)) continue;
    std::string host = url.substr(std::string_view(scheme).size());
    if (host.ends_with('/')) host.pop_back();
    if (host.empty() || host.find('/') != std::string::npos) break;
    // As a DNS target always: a host must never be read as a scheme.
    return Target{"dns:///" + host, tls};
  }
  return fail(Errc::kInvalidArgument, fmt::format("--api-url '{}' is no address", printable(url)),
              "write https://HOST:PORT, http://HOST:PORT for plaintext, or unix:PATH");
}

Result<std::string> read_pem(const std::string& path, std::string_view option) {
  if (path.empty()) return std::string();
  auto text = os::read_file(path, kPemBytesMax);
  if (!text) return fail(std::move(text).error().context(option));
  return text;
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials(const ConnectionOptions& options,
                                                              bool tls) {
  if (options.client_cert_path.empty() != options.client_key_path.empty()) {
    return fail(Errc::kInvalidArgument,
                options.client_key_path.empty()
                    ? "--client-cert-path is given without its key"
                    : "--client-key-path is given without its certificate",
                "give both, --client-cert-path and --client-key-path");
  }
  if (!tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  IMEX_TRY(ssl.pem_root_certs, read_pem(options.root_ca_path, "--root-ca-path"));
  IMEX_TRY(ssl.pem_cert_chain, read_pem(options.client_cert_path, "--client-cert-path"));
  IMEX_TRY(ssl.pem_private_key, read_pem(options.client_key_path, "--client-key-path"));
  return grpc::SslCredentials(ssl);
}

std::string next_step(grpc::StatusCode code, const std::string& where) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return fmt::format(
          "see whether imex-controller runs and listens at {}; with https:// also whether "
          "--root-ca-path signed its certificate for that name, and whether it knows ours",
          where);
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "the controller took too long: give it more with --timeout, or see its log";
    case grpc::StatusCode::UNIMPLEMENTED:
      return fmt::format("what listens at {} does not serve this", where);
    default:
      return {};
  }
}

}  // namespace

Result<Client> Client::connect(const ConnectionOptions& options) {
  // Failures are told by us, once and in one paragraph.
  gpr_set_log_function([](gpr_log_func_args*) {});
  IMEX_TRY(const Target target, target_of(options.api_url));
  IMEX_TRY(const auto identity, credentials(options, target.tls));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy of the environment is for the web
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);  // no TXT lookups
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kAnswerBytesMax);
  Client client;
  client.where_ = options.api_url;
  client.timeout_ = options.timeout;
  client.stub_ = pb::Forge::NewStub(grpc::CreateCustomChannel(target.name, identity, arguments));
  return client;
}

Error Client::error_of(const grpc::Status& status, std::string_view what) const {
  return {errc_of(status.error_code()), fmt::format("{}: {}", what, status.error_message()),
          next_step(status.error_code(), where_)};
}

}  // namespace imex::admin
