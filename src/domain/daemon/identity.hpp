/// Which slot of the node list is this machine's (imex-service.md, section 5).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "domain/config.hpp"
#include "domain/node_list.hpp"
#include "net/resolver.hpp"

namespace imex::domain {

struct OwnSlot {
  NodeId node = kNoNode;
  std::string address;  ///< to listen on; link-local ones with %scope
};

/// Addresses that interfaces carry, canonical. Being able to bind an address says nothing: all of
/// 127/8 can be bound.
[[nodiscard]] std::vector<std::string> interface_addresses();

/// The first entry whose address counts as ours. `addresses[i]` is that of entry i, empty where it
/// is not known. With `bind_ip` that address alone counts, also in 127/8; without it the
/// interfaces' do, but never the address of unassigned slots. Nothing found: node is kNoNode.
[[nodiscard]] OwnSlot find_own_slot(const NodeList& list, const std::vector<std::string>& addresses,
                                    const std::string& bind_ip,
                                    const std::vector<std::string>& interfaces);

/// Resolves the entries of a list. Literals and the hosts file answer at once; other names are
/// waited for only if the own slot was not among those.
class OwnSlotFinder {
 public:
  OwnSlotFinder(net::Resolver& resolver, const DaemonConfig& config);
  using Callback = std::function<void(OwnSlot)>;
  /// One search at a time: a new one replaces the former. The callback may come from inside.
  void find(const NodeList& list, Callback callback);

 private:
  struct Search;
  net::Resolver& resolver_;
  const DaemonConfig& config_;
  std::shared_ptr<Search> search_;
};

}  // namespace imex::domain
