#include "identity.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

namespace imex::domain {

namespace {

/// Without the scope: a list writes fe80::1, the interface says fe80::1%eth0.
std::string_view without_scope(std::string_view address) {
  return address.substr(0, address.find('%'));
}

bool same_address(std::string_view a, std::string_view b) {
  return !a.empty() && (a == b || without_scope(a) == without_scope(b));
}

std::string with_scope(std::string address, const DaemonConfig& config) {
  const bool link_local = address.starts_with("fe80:") && address.find('%') == std::string::npos;
  if (link_local && !config.network_interface.empty()) {
    address += "%" + config.network_interface;
  }
  return address;
}

}  // namespace

std::vector<std::string> interface_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      addresses.emplace_back(text.data());
    }
  }
  ::freeifaddrs(all);
  return addresses;
}

OwnSlot find_own_slot(const NodeList& list, const std::vector<std::string>& addresses,
                      const std::string& bind_ip, const std::vector<std::string>& interfaces) {
  const std::string bind = net::canonical_address(bind_ip);
  for (std::size_t i = 0; i < list.entries.size(); ++i) {
    const std::string& address = addresses[i];
    if (address.empty()) continue;
    bool own = false;
    if (!bind_ip.empty()) {
      own = same_address(address, bind);
    } else if (address != kUnassignedAddress) {
      own = std::ranges::any_of(
          interfaces, [&](const std::string& each) { return same_address(address, each); });
    }
    if (own) return {static_cast<NodeId>(i), bind_ip.empty() ? address : bind};
  }
  return {};
}

struct OwnSlotFinder::Search {
  NodeList list;
  std::vector<std::string> addresses;
  std::size_t unanswered = 0;
  Callback callback;
};

OwnSlotFinder::OwnSlotFinder(net::Resolver& resolver, const DaemonConfig& config)
    : resolver_(resolver), config_(config) {}

void OwnSlotFinder::find(const NodeList& list, Callback callback) {
  auto search = std::make_shared<Search>();
  search_ = search;
  search->list = list;
  search->callback = std::move(callback);
  for (const NodeEntry& entry : list.entries) {
    search->addresses.push_back(resolver_.resolve_locally(entry.text));
  }
  const auto decide = [this](const Search& s) {
    OwnSlot own = find_own_slot(s.list, s.addresses, config_.bind_ip, interface_addresses());
    own.address = with_scope(std::move(own.address), config_);
    return own;
  };
  const OwnSlot own = decide(*search);
  for (std::size_t i = 0; own.node == kNoNode && i < list.entries.size(); ++i) {
    if (!search->addresses[i].empty()) continue;
    ++search->unanswered;
    resolver_.resolve(list.entries[i].text,
                      [this, decide, i, weak = std::weak_ptr<Search>(search)](std::string address) {
                        const auto still = weak.lock();
                        if (!still || still != search_) return;
                        still->addresses[i] = std::move(address);
                        const OwnSlot found = decide(*still);
                        if (--still->unanswered != 0 && found.node == kNoNode) return;
                        search_.reset();
                        still->callback(found);
                      });
  }
  if (search->unanswered != 0) return;
  search_.reset();
  search->callback(own);
}

}  // namespace imex::domain
