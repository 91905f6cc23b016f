#include "inventory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "os/file.hpp"
#include "os/random.hpp"

namespace imex::controller {
namespace {

using partition::ConfiguredEndpoint;
using partition::Endpoint;
using partition::EndpointCredentials;
using partition::EndpointId;
using partition::Provider;
using partition::Site;
using partition::WriteTransaction;

const partition::Actor kConfiguration{"configuration", ""};

Result<void> check_private(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail(system_error(errno, "stat " + path));
  if ((status.st_mode & 077U) == 0) return {};
  return fail(Errc::kPermissionDenied, "credentials file " + path + ": others may read it",
              "chmod 600 it, and change the password if others could have read it");
}

Result<void> read_password(const std::string& path, EndpointCredentials& out) {
  if (path.empty()) return {};
  IMEX_CHECK_OK(check_private(path));
  IMEX_TRY(std::string line, os::read_file(path, 4096));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  const auto colon = line.find(':');
  if (colon == std::string::npos || line.find('\n') != std::string::npos) {
    return fail(Errc::kInvalidArgument, path + ": want one line, USER:PASSWORD");
  }
  out.user = line.substr(0, colon);
  out.password = log::Secret(line.substr(colon + 1));
  return {};
}

Result<EndpointCredentials> credentials_of(const ConfiguredEndpoint& endpoint) {
  EndpointCredentials credentials;
  IMEX_CHECK_OK(read_password(endpoint.credentials_file, credentials));
  credentials.ca_certificate_path = endpoint.identity.ca_certificate_path;
  credentials.client_certificate_path = endpoint.identity.client_certificate_path;
  credentials.client_key_path = endpoint.identity.client_key_path;
  return credentials;
}

Result<Site> site_of(WriteTransaction& t, const partition::ControllerConfig& config) {
  IMEX_TRY(const auto sites, t.list<Site>({}));
  for (const Site& site : sites) {
    if (site.name == config.site) return site;
  }
  IMEX_TRY(auto provider, t.provider_of(config.provider_org));
  if (!provider) {
    provider = Provider{
        .id = {os::random_uuid()}, .org = config.provider_org, .display_name = config.provider_org};
    IMEX_CHECK_OK(t.insert(*provider));
  }
  Site site{.id = {os::random_uuid()}, .provider = provider->id, .name = config.site};
  IMEX_CHECK_OK(t.insert(site));
  return site;
}

/// The endpoints that were made, with what they were made from.
using Made = std::vector<std::pair<EndpointId, const ConfiguredEndpoint*>>;

Result<void> make_endpoints(WriteTransaction& t, const partition::ControllerConfig& config,
                            Made& made) {
  made.clear();
  IMEX_TRY(const Site site, site_of(t, config));
  IMEX_TRY(const auto known, t.list<Endpoint>({}));
  for (const ConfiguredEndpoint& wanted : config.endpoints) {
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const Endpoint& e) { return e.url == wanted.url; });
    if (is_known) continue;
    Endpoint endpoint{.id = {os::random_uuid()},
                      .site = site.id,
                      .protocol = wanted.protocol,
                      .url = wanted.url,
                      .chassis_serial = wanted.chassis_serial,
                      .tls_authority = wanted.identity.authority,
                      .verify_server = wanted.verify_server};
    IMEX_CHECK_OK(t.insert(endpoint));
    made.emplace_back(endpoint.id, &wanted);
  }
  if (!made.empty()) t.wake_reconciler();
  return {};
}

}  // namespace

Result<void> write_inventory(partition::Store& store, const partition::ControllerConfig& config) {
  if (config.endpoints.empty()) return {};
  Made made;
  IMEX_CHECK_OK(store.write(kConfiguration,
                            [&](WriteTransaction& t) { return make_endpoints(t, config, made); }));
  for (const auto& [id, endpoint] : made) {
    IMEX_TRY(const EndpointCredentials credentials, credentials_of(*endpoint));
    const bool has_any = !credentials.user.empty() || !credentials.ca_certificate_path.empty() ||
                         !credentials.client_certificate_path.empty();
    if (has_any) IMEX_CHECK_OK(store.put_credentials(kConfiguration, id, credentials));
  }
  return {};
}

Result<partition::SiteId> make_site(partition::Store& store,
                                    const partition::ControllerConfig& config) {
  partition::SiteId id;
  IMEX_CHECK_OK(store.write(kConfiguration, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(const Site site, site_of(t, config));
    id = site.id;
    return {};
  }));
  return id;
}

}  // namespace imex::controller
