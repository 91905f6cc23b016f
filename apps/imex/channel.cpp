#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.hpp"
#include "domain/control_client.hpp"

namespace imex::cli {
namespace {

Result<domain::ControlClient> control(const Global& global) {
  IMEX_TRY(const DaemonPaths paths, locate_daemon(locate_options(global.state_dir)));
  return domain::ControlClient::connect(paths.control_socket(), global.timeout);
}

Json to_json(const domain::ChannelGrant& grant) {
  return {{"channel", grant.channel},
          {"workload", grant.workload},
          {"path", grant.path},
          {"uid", grant.uid},
          {"gpu_uids", grant.gpu_uids}};
}

}  // namespace

Result<void> channel_grant(const Global& global, const ChannelGrantOptions& options) {
  IMEX_TRY(auto client, control(global));
  IMEX_TRY(const auto grant,
           client.grant({options.workload, options.gpu_uids, options.gpu_indexes, options.uid}));
  if (global.format != Format::kTable) return print(to_json(grant).dump());
  Table table({"CHANNEL", "WORKLOAD", "UID", "GPU UIDS", "PATH"});
  table.add({fmt::format("{}", grant.channel), grant.workload, fmt::format("{}", grant.uid),
             grant.gpu_uids.empty() ? "all" : fmt::format("{}", fmt::join(grant.gpu_uids, ",")),
             grant.path});
  return print(table.render());
}

Result<void> channel_release(const Global& global, const std::string& workload) {
  IMEX_TRY(auto client, control(global));
  IMEX_CHECK_OK(client.release(workload));
  if (global.format != Format::kTable) return print(Json{{"released", workload}}.dump());
  if (!global.quiet)
    fmt::print(stderr, "workload '{}' holds no channel on this node now\n", workload);
  return {};
}

}  // namespace imex::cli
