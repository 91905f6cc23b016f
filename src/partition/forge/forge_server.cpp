#include "partition/forge/forge_server.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "base/text.hpp"
#include "forge_service.hpp"

namespace imex::partition::forge {
namespace {

constexpr int kRequestBytesMax = 1 << 20;  // a hundred ids, or the GPUs of a machine, many times
constexpr int kHandshakeMs = 5000;
constexpr int kStreamsMax = 64;
constexpr unsigned kRefreshSeconds = 10;
constexpr auto kGrace = std::chrono::seconds(2);

bool is_unix(std::string_view address) { return address.starts_with("unix:"); }

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]:") ||
         address.starts_with("localhost:");
}

std::shared_ptr<grpc::ServerCredentials> tls_credentials(const net::TlsIdentity& identity) {
  using grpc::experimental::FileWatcherCertificateProvider;
  using grpc::experimental::StaticDataCertificateProvider;
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider;
  if (identity.key_path.empty()) {  // from the environment, which cannot change
    provider = std::make_shared<StaticDataCertificateProvider>(
        identity.authority,
        std::vector<grpc::experimental::IdentityKeyCertPair>{{identity.key, identity.certificate}});
  } else {
    provider = std::make_shared<FileWatcherCertificateProvider>(
        identity.key_path, identity.certificate_path, identity.authority_path, kRefreshSeconds);
  }
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

/// How an address is listened on. Errors: kInvalidArgument (it must not go without TLS).
Result<std::shared_ptr<grpc::ServerCredentials>> credentials_for(
    const std::string& address, const std::shared_ptr<grpc::ServerCredentials>& tls,
    bool trust_local) {
  if (tls && !is_unix(address)) return tls;
  if (trust_local && (is_unix(address) || is_loopback(address)))
    return grpc::InsecureServerCredentials();
  return fail(Errc::kInvalidArgument,
              fmt::format("the administrator's service cannot listen on {} without TLS",
                          printable(address)),
              is_unix(address) || is_loopback(address)
                  ? "give it a certificate, key and authority, or allow plaintext for local "
                    "callers, which makes everybody who can connect an operator"
                  : "give it a certificate, key and authority; plaintext is for Unix sockets and "
                    "loopback addresses only");
}

void set_limits(grpc::ServerBuilder& builder, std::uint32_t threads_max) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two controllers on one port: an error
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  grpc::ResourceQuota quota("forge");
  quota.SetMaxThreads(static_cast<int>(std::max<std::uint32_t>(threads_max, 4)));
  builder.SetResourceQuota(quota);
}

/// "127.0.0.1:0" with the port that it became.
std::string with_port(const std::string& address, int port) {
  if (is_unix(address)) return address;
  return fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
}

}  // namespace

struct ForgeServer::Impl {
  Impl(const ForgeServerOptions& options, Administration& administration, ForgeLog log)
      : service(options, administration, std::move(log)) {}
  ForgeService service;
  std::vector<std::string> addresses;
  std::unique_ptr<grpc::Server> server;
};

ForgeServer::ForgeServer(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

ForgeServer::~ForgeServer() {
  impl_->service.stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() + kGrace);
  impl_->server->Wait();
}

const std::vector<std::string>& ForgeServer::addresses() const noexcept { return impl_->addresses; }

Result<std::unique_ptr<ForgeServer>> ForgeServer::start(const ForgeServerOptions& options,
                                                        Administration& administration,
                                                        ForgeLog log) {
  if (options.listen.empty())
    return fail(Errc::kInvalidArgument, "the administrator's service has no address to listen on");
  std::shared_ptr<grpc::ServerCredentials> tls;
  if (options.tls) {
    IMEX_TRY(const net::TlsIdentity identity, net::load_tls_identity(*options.tls));
    tls = tls_credentials(identity);
  }
  auto impl = std::make_unique<Impl>(options, administration, std::move(log));
  grpc::ServerBuilder builder;
  set_limits(builder, options.threads_max);
  std::vector<int> ports(options.listen.size(), 0);
  for (std::size_t i = 0; i < options.listen.size(); ++i) {
    IMEX_TRY(const auto credentials, credentials_for(options.listen[i], tls, options.trust_local));
    builder.AddListeningPort(options.listen[i], credentials, &ports[i]);
  }
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  for (std::size_t i = 0; i < options.listen.size(); ++i) {
    if (impl->server && (ports[i] != 0 || is_unix(options.listen[i]))) {
      impl->addresses.push_back(with_port(options.listen[i], ports[i]));
      continue;
    }
    return fail(Errc::kUnavailable,
                fmt::format("the administrator's service cannot listen on {}",
                            printable(options.listen[i])),
                "see whether another process has the address, and whether it is one of this "
                "machine");
  }
  return std::unique_ptr<ForgeServer>(new ForgeServer(std::move(impl)));
}

}  // namespace imex::partition::forge
