/// The administrators' gRPC service of this controller.
#pragma once

#include <memory>

#include "log/log.hpp"
#include "partition/controller/config.hpp"
#include "partition/controller/controller.hpp"
#include "partition/forge/forge_server.hpp"
#include "partition/store/store.hpp"

namespace imex::controller {

/// The service with what it works on; the store and the log must outlive it.
struct AdministrationService {
  std::unique_ptr<partition::forge::Administration> administration;
  std::unique_ptr<partition::forge::ForgeServer> server;  ///< ends first
};

/// Nothing listens unless the configuration says where. Makes the site if there is none: endpoints
/// that are added belong to it. `managers` makes the clients that look at a domain for
/// `NmxcBrowse`. Errors: kInvalidArgument (rules of callers), those of ForgeServer::start().
[[nodiscard]] Result<AdministrationService> start_administration(
    const partition::ControllerConfig& config, partition::Store& store,
    partition::ManagerFactory managers, log::Logger& log);

}  // namespace imex::controller
