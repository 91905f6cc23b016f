/// What the configuration file says there is, written into the store at the start.
#pragma once

#include "partition/controller/config.hpp"
#include "partition/store/store.hpp"

namespace imex::controller {

/// Makes the provider and the site where there is none, and each configured endpoint that is not
/// known by its URL; credentials are sealed beside it. What is there already stays as it is.
/// Errors: those of the store; credentials files that are missing, malformed or readable by others.
[[nodiscard]] Result<void> write_inventory(partition::Store& store,
                                           const partition::ControllerConfig& config);

/// The configured site, made with its provider where there is none.
[[nodiscard]] Result<partition::SiteId> make_site(partition::Store& store,
                                                  const partition::ControllerConfig& config);

}  // namespace imex::controller
