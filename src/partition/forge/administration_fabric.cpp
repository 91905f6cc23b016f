#include <algorithm>

#include "checks.hpp"
#include "os/random.hpp"
#include "partition/forge/administration.hpp"

namespace imex::partition::forge {
namespace {

constexpr std::size_t kChassisBytesMax = 256, kUrlBytesMax = 2048, kUserBytesMax = 256,
                      kPasswordBytesMax = 4096;

Result<void> check_endpoint(const ChassisEndpoint& wanted) {
  IMEX_CHECK_OK(check_text("chassis_serial", wanted.chassis_serial, kChassisBytesMax));
  IMEX_CHECK_OK(check_text("endpoint", wanted.url, kUrlBytesMax));
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (wanted.url.starts_with(scheme) && wanted.url.size() > scheme.size()) return {};
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("endpoint '{}' is no URL of a fabric manager", printable(wanted.url)),
              "write http://HOST:PORT for plaintext or https://HOST:PORT for TLS; NMX-C listens at "
              "port 9370 by default");
}

Result<std::vector<Endpoint>> endpoints_of(ReadTransaction& t, const SiteId& site,
                                           FabricProtocol protocol) {
  IMEX_TRY(auto rows, rows_with<Endpoint>(t, Field::kSite, {site.to_string()}, Field::kChassis));
  std::erase_if(rows, [&](const Endpoint& row) { return row.protocol != protocol; });
  return rows;
}

Result<std::vector<Endpoint>> of_chassis(ReadTransaction& t, const SiteId& site,
                                         const std::string& chassis_serial) {
  IMEX_TRY(auto rows, endpoints_of(t, site, FabricProtocol::kNmxC));
  std::erase_if(rows, [&](const Endpoint& row) { return row.chassis_serial != chassis_serial; });
  return rows;
}

/// The one endpoint of a chassis. NICo knows one each; the store may hold several that stand in for
/// one another.
Result<Endpoint> sole_endpoint(ReadTransaction& t, const SiteId& site,
                               const std::string& chassis_serial) {
  IMEX_TRY(auto rows, of_chassis(t, site, chassis_serial));
  if (rows.empty()) {
    return fail(Errc::kNotFound,
                fmt::format("no NMX-C endpoint for chassis '{}'", printable(chassis_serial)),
                "'imex-admin nvlink-nmxc-endpoints show' lists those there are");
  }
  if (rows.size() > 1) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("chassis '{}' has {} endpoints that stand in for one another",
                            printable(chassis_serial), rows.size()),
                "change them one by one through the REST API");
  }
  return std::move(rows.front());
}

/// URLs are unique by an index; its refusal is told as what it means.
Error url_taken(Error error, const std::string& url) {
  if (error.code != Errc::kAlreadyExists) return error;
  return {Errc::kAlreadyExists, fmt::format("endpoint {} is entered already", printable(url))};
}

}  // namespace

// ---- Endpoints ---------------------------------------------------------------------------------

Result<std::vector<ChassisEndpoint>> Administration::endpoints() {
  std::vector<ChassisEndpoint> found;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    found.clear();
    IMEX_TRY(auto rows, endpoints_of(t, options_.site, FabricProtocol::kNmxC));
    for (Endpoint& row : rows) {
      // One that only its domain groups has no place in a table by chassis.
      if (!row.chassis_serial.empty())
        found.push_back({std::move(row.chassis_serial), std::move(row.url)});
    }
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return found;
}

Result<ChassisEndpoint> Administration::create_endpoint(const Actor& actor,
                                                        const ChassisEndpoint& wanted) {
  IMEX_CHECK_OK(check_endpoint(wanted));
  auto done = store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(const auto same, of_chassis(t, options_.site, wanted.chassis_serial));
    if (!same.empty()) {
      return fail(Errc::kAlreadyExists,
                  fmt::format("chassis '{}' has the endpoint {} already",
                              printable(wanted.chassis_serial), printable(same.front().url)),
                  "'imex-admin nvlink-nmxc-endpoints update' changes it");
    }
    Endpoint row;
    row.id = EndpointId{os::random_uuid()};
    row.site = options_.site;
    row.url = wanted.url;
    row.chassis_serial = wanted.chassis_serial;
    if (auto inserted = t.insert(row); !inserted)
      return fail(url_taken(std::move(inserted).error(), wanted.url));
    t.wake_reconciler();
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return wanted;
}

Result<ChassisEndpoint> Administration::update_endpoint(const Actor& actor,
                                                        const ChassisEndpoint& wanted) {
  IMEX_CHECK_OK(check_endpoint(wanted));
  auto done = store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(Endpoint row, sole_endpoint(t, options_.site, wanted.chassis_serial));
    if (row.url == wanted.url) return {};
    row.url = wanted.url;
    // What was learned there says nothing about who answers at the new address.
    row.domain.reset();
    row.state.clear();
    row.last_contact.reset();
    if (auto updated = t.update(row); !updated)
      return fail(url_taken(std::move(updated).error(), wanted.url));
    t.wake_reconciler();
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return wanted;
}

Result<void> Administration::delete_endpoint(const Actor& actor,
                                             const std::string& chassis_serial) {
  IMEX_CHECK_OK(check_text("chassis_serial", chassis_serial, kChassisBytesMax));
  return store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(const Endpoint row, sole_endpoint(t, options_.site, chassis_serial));
    IMEX_CHECK_OK(t.put_credentials(row.id, ""));
    IMEX_CHECK_OK(t.remove<Endpoint>(row.id));
    t.wake_reconciler();
    return {};
  });
}

// ---- Credentials -------------------------------------------------------------------------------

namespace {

Result<std::vector<Endpoint>> nmxm_endpoints(Store& store, const SiteId& site) {
  std::vector<Endpoint> found;
  auto done = store.read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(found, endpoints_of(t, site, FabricProtocol::kNmxM));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return found;
}

}  // namespace

Result<void> Administration::add_nmxm_credentials(const Actor& actor, const std::string& user,
                                                  const log::Secret& password) {
  IMEX_CHECK_OK(check_text("username", user, kUserBytesMax));
  if (user.find(':') != std::string::npos) {
    return fail(Errc::kInvalidArgument, "the username has a colon",
                "HTTP basic authentication cannot carry one");
  }
  if (password.empty()) return fail(Errc::kInvalidArgument, "the password is missing");
  if (password.reveal().size() > kPasswordBytesMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("the password has more than {} bytes", kPasswordBytesMax));
  }
  IMEX_TRY(const auto endpoints, nmxm_endpoints(store_, options_.site));
  if (endpoints.empty()) {
    return fail(Errc::kFailedPrecondition, "this site has no NMX-M endpoint to use them for",
                "enter its URL first: nmx_m_endpoint in [nvlink_config] of the controller");
  }
  for (const Endpoint& endpoint : endpoints) {
    EndpointCredentials credentials;
    if (endpoint.has_credentials) {
      IMEX_TRY(credentials, store_.credentials(endpoint.id));
    }
    credentials.user = user;
    credentials.password = password;
    IMEX_CHECK_OK(store_.put_credentials(actor, endpoint.id, credentials));
  }
  return {};
}

Result<void> Administration::delete_nmxm_credentials(const Actor& actor, const std::string& user) {
  IMEX_CHECK_OK(check_text("username", user, kUserBytesMax));
  IMEX_TRY(const auto endpoints, nmxm_endpoints(store_, options_.site));
  bool found = false;
  for (const Endpoint& endpoint : endpoints) {
    if (!endpoint.has_credentials) continue;
    IMEX_TRY(EndpointCredentials credentials, store_.credentials(endpoint.id));
    if (credentials.user != user) continue;
    found = true;
    credentials.user.clear();
    credentials.password = log::Secret();
    IMEX_CHECK_OK(store_.put_credentials(actor, endpoint.id, credentials));
  }
  if (found) return {};
  return fail(
      Errc::kNotFound,
      fmt::format("no NMX-M endpoint of this site has credentials of user '{}'", printable(user)));
}

// ---- Browsing ----------------------------------------------------------------------------------

Result<BrowseAnswer> Administration::browse(const std::string& chassis_serial, int operation,
                                            std::uint64_t gpu_uid,
                                            const fabric::CallOptions& call) {
  IMEX_CHECK_OK(check_text("chassis_serial", chassis_serial, kChassisBytesMax));
  std::vector<Endpoint> endpoints;
  IMEX_CHECK_OK(store_.read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(endpoints, of_chassis(t, options_.site, chassis_serial));
    return {};
  }));
  if (endpoints.empty()) {
    return fail(Errc::kNotFound,
                fmt::format("no NMX-C endpoint for chassis '{}'", printable(chassis_serial)),
                "enter one: imex-admin nvlink-nmxc-endpoints create");
  }
  if (operation < 1 || operation > 3) {
    return BrowseAnswer{
        fmt::format("operation {} is not one of 1 (compute nodes), 2 (one GPU), 3 (all GPUs)",
                    operation),
        400};
  }
  const auto wanted = static_cast<BrowseOperation>(operation);
  if (wanted == BrowseOperation::kGpu && gpu_uid == 0)
    return BrowseAnswer{"operation 2 (one GPU) needs gpu_uid", 400};
  if (!options_.observe)
    return fail(Errc::kUnavailable, "this controller is not connected to fabric managers");
  Error last;
  for (const Endpoint& endpoint : endpoints) {
    auto snapshot = options_.observe(endpoint, call);
    if (snapshot) return render_browse(*snapshot, wanted, gpu_uid);
    last = std::move(snapshot).error();
  }
  return fail(std::move(last).context(
      fmt::format("ask the fabric manager of chassis '{}'", printable(chassis_serial))));
}

}  // namespace imex::partition::forge
