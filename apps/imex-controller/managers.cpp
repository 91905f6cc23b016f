#include "managers.hpp"

#include <utility>

#include "fabric/nmxc.hpp"
#include "fabric/nmxm.hpp"

namespace imex::controller {
namespace {

std::string first_of(const std::string& own, const std::string& general) {
  return own.empty() ? general : own;
}

Result<std::unique_ptr<fabric::FabricManager>> open_nmx_c(const partition::EndpointGroup& group,
                                                          const partition::ManagerIdentity& general,
                                                          log::Logger& log) {
  fabric::nmxc::Options options;
  const partition::Endpoint& first = group.endpoints.front();
  const partition::EndpointCredentials& files = group.credentials.front();
  for (const partition::Endpoint& endpoint : group.endpoints)
    options.endpoints.push_back(endpoint.url);
  options.tls.authority_file = first_of(files.ca_certificate_path, general.ca_certificate_path);
  options.tls.certificate_file =
      first_of(files.client_certificate_path, general.client_certificate_path);
  options.tls.key_file = first_of(files.client_key_path, general.client_key_path);
  options.tls.server_name = first_of(first.tls_authority, general.authority);
  options.gateway_id = "imex-controller";
  if (first.domain) options.domain_uuid = first.domain->uuid;
  options.log = &log;
  return fabric::nmxc::open(std::move(options));
}

/// NMX-M speaks for many domains, a group for one: with several the endpoint must say which.
Result<Uuid> only_domain(const fabric::nmxm::Options& options) {
  const auto call = fabric::CallOptions::within(std::chrono::seconds(3));
  const auto domains = fabric::nmxm::list_domains(options, call);
  if (!domains) return fail(domains.error().error);
  if (domains->size() == 1) return domains->front();
  return fail(Errc::kUnsupported,
              options.endpoints.front() + " speaks for " + std::to_string(domains->size()) +
                  " NVLink domains, one is wanted",
              "register the NMX-C endpoint of each domain instead");
}

Result<std::unique_ptr<fabric::FabricManager>> open_nmx_m(const partition::EndpointGroup& group,
                                                          const partition::ManagerIdentity& general,
                                                          log::Logger& log) {
  fabric::nmxm::Options options;
  const partition::Endpoint& first = group.endpoints.front();
  const partition::EndpointCredentials& own = group.credentials.front();
  for (const partition::Endpoint& endpoint : group.endpoints)
    options.endpoints.push_back(endpoint.url);
  options.tls.authority_file = first_of(own.ca_certificate_path, general.ca_certificate_path);
  options.tls.certificate_file =
      first_of(own.client_certificate_path, general.client_certificate_path);
  options.tls.key_file = first_of(own.client_key_path, general.client_key_path);
  options.tls.server_name = first_of(first.tls_authority, general.authority);
  options.tls.verify = first.verify_server;
  options.user = own.user;
  options.password = own.password;
  options.log = &log;
  if (first.domain) {
    options.domain_uuid = first.domain->uuid;
  } else {
    IMEX_TRY(options.domain_uuid, only_domain(options));
  }
  return fabric::nmxm::open(std::move(options));
}

}  // namespace

partition::ManagerFactory manager_factory(const partition::ControllerConfig& config,
                                          log::Logger& log) {
  return
      [general = config.identity, &log](
          const partition::EndpointGroup& group) -> Result<std::unique_ptr<fabric::FabricManager>> {
        switch (group.endpoints.front().protocol) {
          case partition::FabricProtocol::kNmxC:
            return open_nmx_c(group, general, log);
          case partition::FabricProtocol::kNmxM:
            return open_nmx_m(group, general, log);
        }
        return fail(Errc::kInternal, "an endpoint of no known protocol");
      };
}

}  // namespace imex::controller
