/// From a configuration to answers: which daemon is the local one, and what all of a domain say.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "domain/command_client.hpp"
#include "domain/config.hpp"
#include "domain/domain_view.hpp"
#include "domain/node_list.hpp"

namespace imex::domain {

/// A whole query, however many daemons are silent: below the 5 s of imex-service section 11.3 with
/// the start of the program on a busy machine.
inline constexpr std::chrono::milliseconds kQueryTimeout = std::chrono::seconds(4);

/// Where the daemon of this configuration can be asked, best first: its sockets, its addresses,
/// and, when none is configured, every address of this machine.
[[nodiscard]] std::vector<CommandEndpoint> local_endpoints(const DaemonConfig& config);

/// The first that answers; the error is the one that tells most. Errors: those of CommandClient.
struct LocalAnswer {
  CommandEndpoint endpoint;
  StatusReport report;
};
[[nodiscard]] Result<LocalAnswer> ask_local(const std::vector<CommandEndpoint>& endpoints,
                                            std::chrono::milliseconds timeout = kQueryTimeout);

/// The whole domain by `timeout`; silent nodes have no report. Slots come from the local daemon's
/// answer, or, when it cannot be asked, from `list`. `port` is where the other daemons are asked.
/// An answer counts if the daemon says that it is the host asked for, in the same domain; one with
/// another node list is shown in the slots of this one.
[[nodiscard]] DomainView query_domain(const Result<LocalAnswer>& local, const NodeList& list,
                                      std::uint16_t port, std::chrono::milliseconds timeout);

/// The list of the configuration. Error texts contain "Failed to read node configuration file", by
/// which DCGM knows a machine that is not configured.
[[nodiscard]] Result<NodeList> read_node_list(const DaemonConfig& config);

}  // namespace imex::domain
