// What is read at the start and again when it changes: credentials, node list, names.

#include <algorithm>

#include <fmt/format.h>

#include "daemon.hpp"
#include "domain/daemon.hpp"
#include "os/file.hpp"

namespace imex::domain {

namespace {

net::TlsSources tls_sources(AuthSource source, const TlsFiles& files) {
  net::TlsSources sources{net::PemSource::kFile, files.key, files.certificate, files.authority};
  if (source == AuthSource::kEnvPath) sources.source = net::PemSource::kEnvPath;
  if (source == AuthSource::kEnvValue) sources.source = net::PemSource::kEnvValue;
  return sources;
}

}  // namespace

Result<void> Daemon::load_security() {
  if (!config_.auth) return {};
  if (config_.wants_gss()) {
    return fail(Errc::kUnsupported,
                fmt::format("{}: Kerberos is not served, and unprotected is not what was asked for",
                            config_.auth_mode),
                "set IMEX_AUTH_ENCRYPTION_MODE=SSL_TLS");
  }
  auto server = net::load_tls_identity(tls_sources(config_.auth_source, config_.server_tls));
  if (!server) return fail(std::move(server).error().context("server TLS"));
  auto client = net::load_tls_identity(tls_sources(config_.auth_source, config_.client_tls));
  if (!client) return fail(std::move(client).error().context("client TLS"));
  server_tls_ = std::move(*server);
  client_tls_ = std::move(*client);
  credentials_loaded_ = loop_.now();
  log_.info("credentials loaded",
            {{"server", server_tls_->subject}, {"client", client_tls_->subject}});
  return {};
}

Result<NodeList> Daemon::load_node_list() const {
  const std::string& path = config_.node_list_path;
  auto text = os::read_file(path);
  if (!text) {
    return fail(std::move(text).error().context("Failed to read node configuration file " + path));
  }
  auto list = parse_node_list(*text);
  if (!list) return fail(std::move(list).error().context("node list " + path));
  if (list->entries.empty()) {
    return fail(Errc::kInvalidArgument, fmt::format("node list {}: no entries", path));
  }
  return list;
}

void Daemon::watch_files() {
  const auto watch = [this](const std::string& path, std::function<void()> then) {
    auto started = net::FileWatch::start(loop_, path, std::move(then));
    if (started) return std::move(*started);
    log_.warn(fmt::format("changes are not seen: {}", started.error().message));
    return std::unique_ptr<net::FileWatch>();
  };
  if (config_.watch_list) {
    list_watch_ = watch(config_.node_list_path, [this] { list_changed(); });
  }
  const bool names = std::ranges::any_of(list_.entries, &NodeEntry::is_name);
  if (names || config_.watch_list) {
    hosts_watch_ = watch(config_.hosts_file, [this] { hosts_changed(); });
  }
}

/// A broken list keeps the former one: whoever edits it sees the line and mends it.
void Daemon::list_changed() {
  auto list = load_node_list();
  if (!list) {
    log_.error(fmt::format("{}; the former list stays", list.error().to_string()));
    return;
  }
  if (*list == list_) return;
  if (domain_identity(config_.domain_id, *list) != domain_id_) {
    return on(IdentityLost{ExitCode::kIdentityChanged, "the node list is that of another domain"});
  }
  log_.info(fmt::format("node list changed: {} entries, {} before", list->entries.size(),
                        list_.entries.size()));
  list_ = std::move(*list);
  resolver_.forget();
  finder_.find(list_, [this](const OwnSlot& own) {
    // Not in the list any more is as final as another place in it; membership decides.
    enqueue(MembershipEvent(ListChanged{list_, own.node}), "ListChanged");
  });
}

void Daemon::hosts_changed() {
  resolver_.forget();
  look_up_identity();
  enqueue(MembershipEvent(ReconnectRequested{}), "ReconnectRequested");
}

void Daemon::look_up_identity() {
  if (!config_.reresolve_identity) return;
  finder_.find(list_, [this](const OwnSlot& own) {
    // A name that does not resolve for a moment is no other identity.
    if (own.node == kNoNode) return log_.warn("own slot of the node list not found; staying as is");
    if (own.node == own_.node && own.address != own_.address) {
      return on(IdentityLost{
          ExitCode::kIdentityChanged,
          fmt::format("own address changed from {} to {}", own_.address, own.address)});
    }
    if (own.node != own_.node) {
      enqueue(MembershipEvent(ListChanged{list_, own.node}), "ListChanged");
    }
  });
}

void Daemon::reconnect() {
  if (!server_ || stopping_) return;
  if (auto secured = load_security(); !secured) {
    log_.error(fmt::format("{}; the former credentials stay", secured.error().to_string()));
  }
  hosts_changed();
}

void Daemon::reload() {
  if (!server_ || stopping_) return;
  list_changed();
  reconnect();
}

}  // namespace imex::domain
