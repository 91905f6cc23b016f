// The bytes of `nvidia-imex-ctl -N` and `-N -j` (imex-service sections 11.2 and 11.3).
#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "domain/domain_view.hpp"

namespace imex::domain {
namespace {

constexpr std::size_t kHostWidthMin = 14;

constexpr std::string_view kLegend =
    "Connectivity Table Legend:\n"
    "I - Invalid - the node could not be asked, the state of its connections is not known\n"
    "N - Never connected\n"
    "R - Recovering - connection lost, nothing cleaned up yet\n"
    "D - Disconnected - connection lost, clean-up done\n"
    "A - Authenticating\n"
    "!V! - Version mismatch - no traffic\n"
    "!M! - Node map mismatch - the node lists differ, no traffic\n"
    "C - Connected - ready for use\n";

const NodeView* find(const DomainView* view, NodeId node) {
  return view != nullptr && node < view->nodes.size() ? &view->nodes[node] : nullptr;
}

std::string version_of(const NodeView& node) { return node.report ? node.report->version : ""; }
std::string host_name_of(const NodeView& node, const RenderOptions& options) {
  return options.host_names && node.report ? node.report->host_name : "";
}

bool pair_changed(const DomainView& view, const DomainView* previous, NodeId from, NodeId to) {
  return find(previous, from) == nullptr || find(previous, to) == nullptr ||
         pair_state(view, from, to) != pair_state(*previous, from, to);
}

/// The slot's own line changed, its connections aside.
bool line_changed(const NodeView& node, const DomainView* previous) {
  const NodeView* before = find(previous, node.node);
  return before == nullptr || before->host != node.host || before->status() != node.status() ||
         version_of(*before) != version_of(node);
}

bool node_changed(const DomainView& view, const NodeView& node, const DomainView* previous) {
  return line_changed(node, previous) || std::ranges::any_of(view.nodes, [&](const NodeView& to) {
           return pair_changed(view, previous, node.node, to.node);
         });
}

/// Node ids and pair codes stand in the middle of three characters.
std::string cell(std::string_view text) {
  const std::size_t left = text.size() < 3 ? 1 : 0;
  return fmt::format(" {:<3}", std::string(left, ' ') + std::string(text));
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string node_line(const DomainView& view, const NodeView& node, std::size_t host_width,
                      const RenderOptions& options) {
  const bool changed = options.previous != nullptr && node_changed(view, node, options.previous);
  const bool marked = changed || view.local == node.node;
  std::string line = fmt::format("Node #{:<4}{} {:<{}}{} - {:<20} - Version: {}", node.node,
                                 marked ? '*' : '-', node.host, host_width, marked ? "*" : " ",
                                 status_word(node.status()), version_of(node));
  if (options.host_names) line += fmt::format(" - Hostname: {}", host_name_of(node, options));
  return line + '\n';
}

std::string matrix(const DomainView& view) {
  std::string out = " Nodes From\\To";
  for (const NodeView& to : view.nodes) out += cell(std::to_string(to.node));
  out = trimmed(std::move(out));
  for (const NodeView& from : view.nodes) {
    std::string row = fmt::format("{:>8}{:6}", from.node, "");
    for (const NodeView& to : view.nodes)
      row += cell(pair_code(pair_state(view, from.node, to.node)));
    out += trimmed(std::move(row));
  }
  return out;
}

}  // namespace

std::string format_timestamp(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{}/{}/{} {:02}:{:02}:{:02}.{:03}", local.tm_mon + 1, local.tm_mday,
                     local.tm_year + 1900, local.tm_hour, local.tm_min, local.tm_sec,
                     ms - seconds * 1000);
}

std::string render_text(const DomainView& view, const RenderOptions& options) {
  std::size_t host_width = kHostWidthMin;
  for (const NodeView& node : view.nodes) host_width = std::max(host_width, node.host.size());
  std::string out;
  if (options.legend) out = std::string(kLegend) + '\n';
  out += format_timestamp(options.time) + "\nNodes:\n";
  for (const NodeView& node : view.nodes) out += node_line(view, node, host_width, options);
  out += '\n' + matrix(view);
  return out + fmt::format("\nDomain State: {}\n", domain_state_word(domain_state(view)));
}

std::string render_json(const DomainView& view, const RenderOptions& options) {
  using Json = nlohmann::ordered_json;  // keys stay in the order of insertion
  Json nodes = Json::object();
  for (const NodeView& from : view.nodes) {
    Json connections = Json::object();
    for (const NodeView& to : view.nodes) {
      if (!from.report) break;
      connections[std::to_string(to.node)] = {
          {"host", to.host},
          {"status", pair_word(pair_state(view, from.node, to.node))},
          {"changed", pair_changed(view, options.previous, from.node, to.node)}};
    }
    nodes[std::to_string(from.node)] = {{"status", status_word(from.status())},
                                        {"host", from.host},
                                        {"connections", std::move(connections)},
                                        {"changed", node_changed(view, from, options.previous)},
                                        {"version", version_of(from)},
                                        {"hostName", host_name_of(from, options)}};
  }
  // The state comes last: DCGM takes the last "status": of the text (section 11.3).
  const Json all = {{"nodes", std::move(nodes)},
                    {"timestamp", format_timestamp(options.time)},
                    {"status", domain_state_word(domain_state(view))}};
  // Host names and versions come from other machines: bytes that are no UTF-8 are replaced.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

bool differs(const DomainView& a, const DomainView& b) {
  if (a.nodes.size() != b.nodes.size() || domain_state(a) != domain_state(b)) return true;
  return std::ranges::any_of(a.nodes,
                             [&](const NodeView& node) { return node_changed(a, node, &b); });
}

}  // namespace imex::domain
