#include <algorithm>

#include <fmt/format.h>

#include "bench/daemons.hpp"
#include "bench/worker.hpp"
#include "domain/command_client.hpp"
#include "os/socket.hpp"

namespace imex::bench {
namespace {

/// Between two looks: short against what is measured (100 ms and more), long against what asking
/// costs.
constexpr std::chrono::milliseconds kBetweenLooks{2};

/// READY, and connected to `count` READY nodes, itself included.
bool is_up(const std::string& socket, std::uint32_t count) {
  domain::CommandEndpoint endpoint;
  endpoint.socket = socket;
  auto client = domain::CommandClient::connect(endpoint);
  if (!client) return false;
  const auto report = client->status(std::chrono::seconds(1));
  return report && report->status == domain::DaemonStatus::kReady &&
         report->peers.size() == count &&
         std::ranges::all_of(report->peers, [&](const domain::PeerReport& peer) {
           return peer.node == report->node || (peer.state == domain::PairState::kConnected &&
                                                peer.status == domain::DaemonStatus::kReady);
         });
}

Result<void> watch(Line& line, std::vector<std::string> sockets, std::uint32_t count,
                   std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    // One that is UP stays so here; the slow ones are asked again.
    std::erase_if(sockets, [&](const std::string& socket) { return is_up(socket, count); });
    if (sockets.empty())
      return line.send({.value = static_cast<std::uint64_t>(now_ns()), .handle = {}});
    if (std::chrono::steady_clock::now() > deadline) {
      return fail(Errc::kDeadlineExceeded,
                  fmt::format("{} of the daemons are not connected to all others, first {}",
                              sockets.size(), sockets.front()));
    }
    static_cast<void>(
        os::wait_readable(line.socket(), std::chrono::steady_clock::now() + kBetweenLooks));
  }
}

}  // namespace

Result<std::int64_t> wait_until_up(const std::vector<std::string>& command_sockets,
                                   std::uint32_t count, std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  IMEX_TRY(const auto worker, Worker::start([&](Line& line) {
             return watch(line, command_sockets, count, deadline);
           }));
  IMEX_TRY(const Note note, worker.line().receive());
  return static_cast<std::int64_t>(note.value);
}

}  // namespace imex::bench
