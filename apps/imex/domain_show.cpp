#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.hpp"
#include "commands.hpp"
#include "domain/command_client.hpp"

namespace imex::cli {
namespace {

/// Channel 0 may belong to whoever can open it.
constexpr std::uint32_t kAnyUser = UINT32_MAX;

/// Ages in whole seconds once they are above one: "12 s", "340 ms".
std::string age(std::chrono::milliseconds since) {
  if (since >= std::chrono::seconds(1))
    return format_duration(std::chrono::floor<std::chrono::seconds>(since));
  return format_duration(since);
}

Result<domain::CommandClient> connect(const DaemonPaths& paths) {
  domain::CommandEndpoint endpoint;
  endpoint.socket = paths.command_socket();
  auto client = domain::CommandClient::connect(endpoint);
  if (!client && client.error().hint.empty()) {
    Error error = std::move(client).error();
    error.hint = "start imexd, or name its state directory with --state-dir";
    return fail(std::move(error));
  }
  return client;
}

/// The domain as one daemon sees it, from its own row of the matrix; `nvidia-imex-ctl -N` asks all.
std::string_view state_of(const domain::StatusReport& report) {
  if (report.status != domain::DaemonStatus::kReady) {
    return domain::domain_state_word(domain::DomainState::kDown);
  }
  const bool all = std::ranges::all_of(report.peers, [&](const domain::PeerReport& peer) {
    if (peer.node == report.node || (peer.address.empty() && report.assigned_only)) return true;
    return peer.state == domain::PairState::kConnected &&
           peer.status == domain::DaemonStatus::kReady;
  });
  return domain::domain_state_word(all ? domain::DomainState::kUp : domain::DomainState::kDegraded);
}

Json to_json(const domain::StatusReport& status, const domain::PeerReport& peer) {
  return {{"node", peer.node},
          {"host", peer.host},
          {"address", peer.address},
          {"local", peer.node == status.node},
          {"connection", domain::pair_word(peer.state)},
          {"status", domain::status_word(peer.status)},
          {"version", peer.version},
          {"instance", peer.instance.is_nil() ? "" : peer.instance.to_string()},
          {"since_ms", peer.since.count()},
          {"last_error", peer.last_error}};
}

}  // namespace

Result<void> domain_show(const Global& global) {
  IMEX_TRY(const DaemonPaths paths, locate_daemon(locate_options(global.state_dir)));
  IMEX_TRY(auto client, connect(paths));
  IMEX_TRY(const auto status, client.status(global.timeout));

  Table table({"NODE", "HOST", "ADDRESS", "CONNECTION", "STATUS", "FOR", "VERSION", "LAST ERROR"});
  std::vector<Json> nodes;
  for (const auto& peer : status.peers) {
    const bool own = peer.node == status.node;
    table.add({fmt::format("{}{}", peer.node, own ? "*" : ""), peer.host,
               peer.address.empty() ? "(unassigned)" : peer.address,
               std::string(domain::pair_word(peer.state)),
               std::string(domain::status_word(peer.status)), age(peer.since), peer.version,
               peer.last_error});
    nodes.push_back(to_json(status, peer));
  }
  if (global.format == Format::kJsonLines)
    return print(render_list(global.format, "nodes", nodes, table));
  if (global.format == Format::kJson) {
    return print(Json{
        {"state", state_of(status)},
        {"status", domain::status_word(status.status)},
        {"node", status.node},
        {"domain_id", status.domain_id.to_string()},
        {"instance", status.instance.to_string()},
        {"version", status.version},
        {"list_epoch", status.list_epoch},
        {"run_directory", paths.run_directory},
        {"last_error", status.last_error},
        {"nodes",
         nodes}}.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  std::string text = fmt::format("domain {} is {} as node {} sees it ({})\n\n{}",
                                 status.domain_id.to_string(), state_of(status), status.node,
                                 domain::status_word(status.status), table.render());
  if (!status.last_error.empty()) text += fmt::format("\nlast error: {}\n", status.last_error);
  return print(text);
}

Result<void> channel_list(const Global& global) {
  IMEX_TRY(const DaemonPaths paths, locate_daemon(locate_options(global.state_dir)));
  IMEX_TRY(auto client, connect(paths));
  IMEX_TRY(const auto health, client.health(global.timeout));
  Table table({"CHANNEL", "WORKLOAD", "UID", "GPU UIDS", "SESSIONS", "EXPORTS", "IMPORTS",
               "EXPORTED", "REFUSED", "PATH"});
  std::vector<Json> rows;
  for (const auto& use : health.channels) {
    table.add({fmt::format("{}", use.channel), use.workload,
               use.uid == kAnyUser ? "any" : fmt::format("{}", use.uid),
               use.gpu_uids.empty() ? "all" : fmt::format("{}", fmt::join(use.gpu_uids, ",")),
               fmt::format("{}", use.sessions), fmt::format("{}", use.exports),
               fmt::format("{}", use.imports), format_size(use.export_bytes),
               fmt::format("{}", use.refused), use.path});
    rows.push_back({{"channel", use.channel},
                    {"workload", use.workload},
                    {"path", use.path},
                    {"uid", use.uid == kAnyUser ? Json() : Json(use.uid)},
                    {"gpu_uids", use.gpu_uids},
                    {"sessions", use.sessions},
                    {"exports", use.exports},
                    {"imports", use.imports},
                    {"export_bytes", use.export_bytes},
                    {"refused", use.refused}});
  }
  return print(render_list(global.format, "channels", rows, table));
}

}  // namespace imex::cli
