#include "domain/domain_query.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "os/file.hpp"

namespace imex::domain {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kNotReadable = "Failed to read node configuration file";

std::chrono::milliseconds left_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

/// Loopback first: a daemon that listens on all interfaces answers there.
std::vector<std::string> machine_addresses() {
  std::vector<std::string> found = {"127.0.0.1"};
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (at->ifa_addr->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;  // not to be dialled without a scope
      ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    }
    if (text[0] != '\0' && std::ranges::find(found, text) == found.end()) found.emplace_back(text);
  }
  return found;
}

/// Slots without any answer yet.
DomainView slots_of(const Result<LocalAnswer>& local, const NodeList& list) {
  DomainView view;
  if (local) {
    view.assigned_only = local->report.assigned_only;
    for (const PeerReport& peer : local->report.peers) {
      view.nodes.push_back({peer.node, peer.host, !peer.address.empty(), std::nullopt});
    }
    const NodeId self = local->report.node;
    if (self < view.nodes.size()) {
      view.local = self;
      view.nodes[self].report = local->report;
    }
    return view;
  }
  for (const NodeEntry& entry : list.entries) {
    view.nodes.push_back({static_cast<NodeId>(view.nodes.size()), entry.text, true, std::nullopt});
  }
  return view;
}

/// Takes an answer for the slot that was asked, if it comes from the node meant. A node whose list
/// differs numbers the slots in its own way (that is what !M! is about), so hosts decide.
void take_answer(DomainView& view, NodeId asked, StatusReport report, const Uuid* domain) {
  const auto same_host = [](const PeerReport& peer, const NodeView& node) {
    return peer.host == node.host;
  };
  if (report.node >= report.peers.size()) return;
  if (!same_host(report.peers[report.node], view.nodes[asked])) return;
  if (std::ranges::equal(report.peers, view.nodes, same_host)) {
    // The same list and yet another domain: two domains of the same names, and this is a stranger.
    if (domain != nullptr && report.domain_id != *domain) return;
  } else {
    std::map<std::string, PeerReport> by_host;
    for (PeerReport& peer : report.peers) by_host.try_emplace(peer.host, std::move(peer));
    report.peers.clear();
    for (const NodeView& node : view.nodes) {
      const auto found = by_host.find(node.host);
      if (found == by_host.end()) continue;
      found->second.node = node.node;
      report.peers.push_back(found->second);
    }
    report.node = asked;
  }
  view.nodes[asked].report = std::move(report);
}

}  // namespace

std::vector<CommandEndpoint> local_endpoints(const DaemonConfig& config) {
  std::vector<CommandEndpoint> endpoints;
  std::error_code error;
  const auto add_socket = [&](const std::string& path) {
    if (std::filesystem::exists(path, error)) endpoints.push_back({path, {}, 0});
  };
  if (!config.command_socket.empty()) add_socket(config.command_socket);
  const std::string address =
      !config.command_bind_ip.empty() ? config.command_bind_ip : config.bind_ip;
  if (!config.state_dir.empty() || !address.empty()) {
    add_socket(run_directory(config, address) + "/command.sock");
  }
  if (!address.empty()) {
    endpoints.push_back({{}, address, config.command_port});
  } else {
    for (std::string& own : machine_addresses()) {
      endpoints.push_back({{}, std::move(own), config.command_port});
    }
  }
  return endpoints;
}

Result<LocalAnswer> ask_local(const std::vector<CommandEndpoint>& endpoints,
                              std::chrono::milliseconds timeout) {
  const Clock::time_point end = Clock::now() + timeout;
  Error worst{Errc::kUnavailable, "no address to ask the local daemon at"};
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    // A candidate that hangs must leave time for those behind it.
    const auto share = left_until(end) / static_cast<int>(endpoints.size() - i);
    auto client = CommandClient::connect(endpoints[i]);
    auto report = client ? client->status(std::max(share, std::chrono::milliseconds(1)))
                         : Result<StatusReport>(fail(std::move(client).error()));
    if (report) return LocalAnswer{endpoints[i], *std::move(report)};
    // That somebody was there but did not answer says more than that nobody listens elsewhere.
    if (i == 0 || worst.code == Errc::kUnavailable) worst = std::move(report).error();
  }
  return fail(std::move(worst));
}

DomainView query_domain(const Result<LocalAnswer>& local, const NodeList& list, std::uint16_t port,
                        std::chrono::milliseconds timeout) {
  DomainView view = slots_of(local, list);
  std::vector<CommandEndpoint> endpoints;
  std::vector<NodeId> asked;
  for (const NodeView& node : view.nodes) {
    if (node.report || !node.assigned) continue;
    // The address that the local daemon uses: no second opinion from a name server.
    endpoints.push_back({{}, local ? local->report.peers[node.node].address : node.host, port});
    asked.push_back(node.node);
  }
  auto answers = ask_all(endpoints, timeout);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    take_answer(view, asked[i], *std::move(answers[i]), local ? &local->report.domain_id : nullptr);
  }
  return view;
}

Result<NodeList> read_node_list(const DaemonConfig& config) {
  const std::string what = std::string(kNotReadable) + " " + config.node_list_path;
  constexpr std::size_t kListBytesMax = 4U << 20U;
  auto text = os::read_file(config.node_list_path, kListBytesMax);
  if (!text) return fail(std::move(text).error().context(what));
  auto list = parse_node_list(*text);
  if (!list) return fail(std::move(list).error().context(what));
  return list;
}

}  // namespace imex::domain
