#include "administration.hpp"

#include <string>
#include <utility>

#include "inventory.hpp"

namespace imex::controller {
namespace {

using partition::forge::Role;

Result<void> add_rules(const std::vector<std::string>& texts, Role role,
                       std::vector<partition::forge::CallerRule>& rules) {
  for (const std::string& text : texts) {
    IMEX_TRY(auto rule, partition::forge::parse_caller_rule(text, role));
    rules.push_back(std::move(rule));
  }
  return {};
}

/// One look through a client of its own: the reconciler's must not wait for a browsing person.
partition::forge::ObserveFabric observer(partition::Store& store,
                                         partition::ManagerFactory managers) {
  return [&store, managers = std::move(managers)](
             const partition::Endpoint& endpoint,
             const fabric::CallOptions& call) -> Result<fabric::Snapshot> {
    partition::EndpointGroup group;
    group.endpoints.push_back(endpoint);
    IMEX_TRY(auto credentials, store.credentials(endpoint.id));
    group.credentials.push_back(std::move(credentials));
    IMEX_TRY(const auto manager, managers(group));
    auto snapshot = manager->observe(call);
    if (!snapshot) return fail(std::move(snapshot).error().error);
    return std::move(*snapshot);
  };
}

}  // namespace

Result<AdministrationService> start_administration(const partition::ControllerConfig& config,
                                                   partition::Store& store,
                                                   partition::ManagerFactory managers,
                                                   log::Logger& log) {
  const partition::AdministrationConfig& wanted = config.administration;
  AdministrationService service;
  if (wanted.listen.empty()) return service;
  partition::forge::ForgeServerOptions options;
  options.listen = wanted.listen;
  options.trust_local = wanted.trust_local;
  if (!wanted.certificate_path.empty()) {
    options.tls = net::TlsSources{.key = wanted.key_path,
                                  .certificate = wanted.certificate_path,
                                  .authority = wanted.ca_certificate_path};
  }
  IMEX_CHECK_OK(add_rules(wanted.admins, Role::kAdmin, options.rules));
  IMEX_CHECK_OK(add_rules(wanted.site_agents, Role::kSiteAgent, options.rules));
  IMEX_TRY(const auto site, make_site(store, config));
  service.administration = std::make_unique<partition::forge::Administration>(
      store, partition::forge::Administration::Options{
                 .site = site, .observe = observer(store, std::move(managers))});
  IMEX_TRY(service.server, partition::forge::ForgeServer::start(
                               options, *service.administration,
                               [&log](std::string_view line) { log.warn(std::string(line)); }));
  return service;
}

}  // namespace imex::controller
