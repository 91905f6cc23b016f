#include "command_wire.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <imex/command/v1/command.pb.h>

namespace imex::domain {

namespace {

namespace pb = imex::command::v1;

constexpr std::size_t kTextBytesMax = 1024;

Uuid uuid_of(const std::string& bytes) {
  Uuid id;
  if (bytes.size() != id.bytes.size()) return id;
  std::ranges::transform(bytes, id.bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return id;
}
/// Control characters would let a peer draw on the terminal of whoever asks.
std::string text_of(const std::string& text) {
  std::string out = text.substr(0, kTextBytesMax);
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return out;
}
DaemonStatus status_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(DaemonStatus::kUnavailable)
             ? static_cast<DaemonStatus>(number)
             : DaemonStatus::kUnavailable;
}
PairState pair_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(PairState::kConnected)
             ? static_cast<PairState>(number)
             : PairState::kInvalid;
}
/// Units that a monitor sends too large become the largest that fits.
template <class Duration>
Duration duration_of(std::uint64_t count) {
  return Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(count, INT64_MAX / 1'000'000)));
}

PeerReport from_proto(const pb::PeerStatus& p) {
  PeerReport peer;
  peer.node = static_cast<NodeId>(p.node());
  peer.host = text_of(p.host());
  peer.address = text_of(p.address());
  peer.state = pair_of(p.state());
  peer.status = status_of(p.status());
  peer.version = text_of(p.version());
  peer.instance = uuid_of(p.instance());
  peer.since = duration_of<std::chrono::milliseconds>(p.since_ms());
  peer.attempts = p.attempts();
  peer.last_error = text_of(p.last_error());
  return peer;
}

ChannelReport from_proto(const pb::ChannelUsage& c) {
  return {c.channel(),       c.uid(),
          c.sessions(),      c.exports(),
          c.imports(),       text_of(c.workload()),
          text_of(c.path()), c.export_bytes(),
          c.refused(),       {c.gpu_uids().begin(), c.gpu_uids().end()}};
}

}  // namespace

Result<StatusReport> from_proto(const pb::Status& s, const std::string& where) {
  StatusReport report;
  report.status = status_of(s.status());
  report.version = text_of(s.version());
  report.host_name = text_of(s.host_name());
  report.last_error = text_of(s.last_error());
  report.node = s.node() < kMaxNodes ? static_cast<NodeId>(s.node()) : kNoNode;
  report.domain_id = uuid_of(s.domain_id());
  report.instance = uuid_of(s.instance());
  report.list_epoch = s.list_epoch();
  report.assigned_only = s.assigned_only();
  for (int i = 0; i < s.peers_size(); ++i) {
    if (s.peers(i).node() != static_cast<std::uint32_t>(i) || report.peers.size() >= kMaxNodes) {
      return fail(Errc::kDataLoss, fmt::format("the daemon at {} lists slot {} as number {}", where,
                                               s.peers(i).node(), i));
    }
    report.peers.push_back(from_proto(s.peers(i)));
  }
  return report;
}

Result<HealthReport> from_proto(const pb::Health& h, const std::string& where) {
  HealthReport report;
  IMEX_TRY(report.status, from_proto(h.status(), where));
  for (const auto& c : h.channels()) report.channels.push_back(from_proto(c));
  for (const auto& g : h.gpus()) {
    report.gpus.push_back(
        {g.index(), g.clique_id(), g.uid(), text_of(g.domain_uuid()), g.attached()});
  }
  for (const auto& [name, value] : h.counters()) report.counters.emplace(text_of(name), value);
  report.certificate_expires_in = duration_of<std::chrono::seconds>(h.certificate_expires_in_s());
  report.credentials_age = duration_of<std::chrono::seconds>(h.credentials_loaded_ago_s());
  for (const auto& problem : h.problems()) report.problems.push_back(text_of(problem));
  return report;
}

}  // namespace imex::domain
