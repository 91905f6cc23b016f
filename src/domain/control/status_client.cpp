#include "domain/status_client.hpp"

#include <algorithm>
#include <cstring>

#include <imex/command/v1/command.grpc.pb.h>

#include "local_service.hpp"

namespace imex::domain {
namespace {

namespace pb = imex::command::v1;

Uuid uuid_of(const std::string& bytes) {
  Uuid id;
  if (bytes.size() == id.bytes.size()) std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return id;
}

DaemonStatus status_of(std::uint32_t number) noexcept {
  return number <= static_cast<std::uint32_t>(DaemonStatus::kUnavailable)
             ? static_cast<DaemonStatus>(number)
             : DaemonStatus::kUnavailable;
}

NodePeer peer_of(const pb::PeerStatus& peer) {
  const bool known = peer.state() <= static_cast<std::uint32_t>(PairState::kConnected);
  return {static_cast<NodeId>(peer.node()),
          peer.host(),
          peer.address(),
          known ? static_cast<PairState>(peer.state()) : PairState::kInvalid,
          status_of(peer.status()),
          peer.version(),
          uuid_of(peer.instance()),
          std::chrono::milliseconds(peer.since_ms()),
          peer.last_error()};
}

}  // namespace

std::string_view NodeStatus::domain_state() const noexcept {
  if (status != DaemonStatus::kReady) return "DOWN";
  const bool all = std::ranges::all_of(peers, [&](const NodePeer& peer) {
    if (peer.address.empty() && assigned_only) return true;
    return peer.node == node ||
           (peer.state == PairState::kConnected && peer.status == DaemonStatus::kReady);
  });
  return all ? "UP" : "DEGRADED";
}

Result<NodeStatus> ask_status(const std::string& command_socket,
                              std::chrono::milliseconds timeout) {
  IMEX_TRY(const auto service, LocalService::open(command_socket, timeout));
  const auto stub = pb::Command::NewStub(service.channel());
  IMEX_TRY(const pb::Status status,
           service.call(*stub, &pb::Command::Stub::GetStatus, pb::GetStatusRequest{},
                        "ask the daemon's status"));
  NodeStatus out{status_of(status.status()),
                 status.version(),
                 status.host_name(),
                 status.last_error(),
                 static_cast<NodeId>(status.node()),
                 uuid_of(status.domain_id()),
                 uuid_of(status.instance()),
                 status.list_epoch(),
                 status.assigned_only(),
                 {}};
  for (const auto& peer : status.peers()) {
    if (peer.node() >= kNoNode)
      return fail(Errc::kDataLoss, "the daemon lists a node id above 65534");
    out.peers.push_back(peer_of(peer));
  }
  return out;
}

Result<std::vector<ChannelUse>> ask_channels(const std::string& command_socket,
                                             std::chrono::milliseconds timeout) {
  IMEX_TRY(const auto service, LocalService::open(command_socket, timeout));
  const auto stub = pb::Command::NewStub(service.channel());
  IMEX_TRY(const pb::Health health,
           service.call(*stub, &pb::Command::Stub::GetHealth, pb::GetHealthRequest{},
                        "ask the daemon's channels"));
  std::vector<ChannelUse> channels;
  for (const auto& use : health.channels()) {
    channels.push_back({use.channel(),
                        use.workload(),
                        use.path(),
                        use.uid(),
                        use.sessions(),
                        use.exports(),
                        use.imports(),
                        use.export_bytes(),
                        use.refused(),
                        {use.gpu_uids().begin(), use.gpu_uids().end()}});
  }
  return channels;
}

}  // namespace imex::domain
