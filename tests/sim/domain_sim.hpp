/// A simulated machine with several daemons: the shipped Broker, ChannelRegistry and journal codec,
/// with clients, links, a disk and a fabric that fail by a seed. Checkers outside the code under
/// test judge after every step. One seed gives one history, on any machine.
///
/// Not covered: who is reachable, silent or ended is decided by the simulation, not by Membership
/// (which has a simulation of its own, src/domain/membership_sim_test.cpp). So the two together are
/// only tested in tests/integration: the order of PeerKnown, LinkConnected and PeerInstanceEnded as
/// Membership gives them, PeerSilent, and list changes while memory is shared. A history in which a
/// daemon dies with a full disk is not judged by the rule of channel numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace imex::sim {

struct SimResult {
  std::uint64_t seed = 0;
  std::string violation;                       ///< empty: all rules held
  std::map<std::string, std::uint64_t> marks;  ///< how often each crash point and event was reached
  std::string history;                         ///< with SimOptions::trace
};

struct SimOptions {
  std::uint64_t seed = 1;
  bool trace = false;
};

[[nodiscard]] SimResult run_domain_sim(const SimOptions& options);

}  // namespace imex::sim
