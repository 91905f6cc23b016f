/// Clients of fabric managers from what the store says of endpoints.
#pragma once

#include "partition/controller/config.hpp"
#include "partition/controller/controller.hpp"

namespace imex::controller {

/// What an endpoint does not say itself is taken from `config`, which is copied. `log` must outlive
/// the factory and its managers.
[[nodiscard]] partition::ManagerFactory manager_factory(const partition::ControllerConfig& config,
                                                        log::Logger& log);

}  // namespace imex::controller
