#include "peer_wire.hpp"

#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <imex/peer/v1/peer.pb.h>

#include "domain/journal.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::peer::v1;

constexpr std::size_t kVersionBytesMax = 64;
constexpr std::size_t kPathBytesMax = 4096;
constexpr std::size_t kTextBytesMax = 512;
constexpr int kTableMax = 65'536;

std::string bytes_of(const Uuid& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
}

Error bad(std::string_view field) {
  return {Errc::kDataLoss, fmt::format("peer message: bad {}", field), {}, kNoRank};
}

Result<Uuid> uuid_from(const std::string& bytes, std::string_view field) {
  Uuid id;
  if (bytes.size() != id.bytes.size()) return fail(bad(field));
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return id;
}

Result<NodeId> node_from(std::uint32_t number, std::string_view field) {
  if (number > kNoNode) return fail(bad(field));
  return static_cast<NodeId>(number);
}

/// Printable text of bounded length; it ends in logs and tables.
Result<std::string> text_from(const std::string& text, std::size_t max, std::string_view field) {
  const auto odd = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (text.size() > max || std::ranges::any_of(text, odd)) return fail(bad(field));
  return text;
}

void fill(pb::Hello& out, const PeerHello& in) {
  const Hello& hello = in.hello;
  out.set_protocol_min(hello.protocol_min);
  out.set_protocol_max(hello.protocol_max);
  out.set_version(hello.version);
  out.set_domain_id(bytes_of(hello.domain_id));
  out.set_instance(bytes_of(hello.instance));
  out.set_boot_id(bytes_of(hello.boot_id));
  out.set_node(hello.node);
  out.set_target(hello.target);
  for (const NodeEntry& entry : hello.list.entries) out.add_nodes(entry.text);
  out.set_link_path(hello.link_path);
  out.set_verdict(static_cast<pb::Verdict>(in.verdict));
}

Result<PeerPayload> read_hello(const pb::Hello& in) {
  PeerHello out;
  Hello& hello = out.hello;
  hello.protocol_min = in.protocol_min();
  hello.protocol_max = in.protocol_max();
  IMEX_TRY(hello.version, text_from(in.version(), kVersionBytesMax, "version"));
  IMEX_TRY(hello.domain_id, uuid_from(in.domain_id(), "domain id"));
  IMEX_TRY(hello.instance, uuid_from(in.instance(), "instance"));
  IMEX_TRY(hello.boot_id, uuid_from(in.boot_id(), "boot id"));
  IMEX_TRY(hello.node, node_from(in.node(), "node"));
  IMEX_TRY(hello.target, node_from(in.target(), "target"));
  IMEX_TRY(hello.link_path, text_from(in.link_path(), kPathBytesMax, "link path"));
  if (in.nodes_size() > static_cast<int>(kMaxNodes)) return fail(bad("node list"));
  std::string lines;
  for (const std::string& node : in.nodes()) lines.append(node).push_back('\n');
  IMEX_TRY(hello.list, parse_node_list(lines));
  if (hello.list.entries.size() != static_cast<std::size_t>(in.nodes_size())) {
    return fail(bad("node list"));  // a comment or a blank entry would shift the ids
  }
  if (in.verdict() < pb::VERDICT_ACCEPTED || in.verdict() > pb::VERDICT_NOT_READY) {
    return fail(bad("verdict"));
  }
  out.verdict = static_cast<HelloVerdict>(in.verdict());
  return out;
}

void fill(pb::Registry& out, const RegistryMessage& in) {
  out.set_kind(static_cast<std::uint32_t>(in.kind));
  out.set_request(in.request);
  out.set_workload(in.workload);
  out.set_other(in.other);
  out.set_channel(in.channel);
  out.set_node(in.node);
  out.set_code(static_cast<std::uint32_t>(in.code));
  out.set_text(in.text);
  for (const ChannelAssignment& assignment : in.table) {
    pb::Assignment& row = *out.add_table();
    row.set_workload(assignment.workload);
    row.set_channel(assignment.channel);
    for (const NodeId holder : assignment.holders) row.add_holders(holder);
  }
}

Result<ChannelAssignment> read_assignment(const pb::Assignment& in) {
  ChannelAssignment out;
  IMEX_TRY(out.workload, text_from(in.workload(), kWorkloadBytesMax, "workload"));
  out.channel = in.channel();
  if (in.holders_size() > static_cast<int>(kMaxNodes)) return fail(bad("holders"));
  for (const std::uint32_t number : in.holders()) {
    IMEX_TRY(const NodeId holder, node_from(number, "holder"));
    out.holders.insert(holder);
  }
  return out;
}

Result<PeerPayload> read_registry(const pb::Registry& in) {
  RegistryMessage out;
  const bool known = in.kind() >= static_cast<std::uint32_t>(RegistryMessage::Kind::kAllocate) &&
                     in.kind() <= static_cast<std::uint32_t>(RegistryMessage::Kind::kTable);
  if (!known) return fail(bad("registry kind"));
  out.kind = static_cast<RegistryMessage::Kind>(in.kind());
  out.request = in.request();
  IMEX_TRY(out.workload, text_from(in.workload(), kWorkloadBytesMax, "workload"));
  IMEX_TRY(out.other, text_from(in.other(), kWorkloadBytesMax, "other workload"));
  out.channel = in.channel();
  IMEX_TRY(out.node, node_from(in.node(), "registry node"));
  out.code = errc_from_number(in.code());
  IMEX_TRY(out.text, text_from(in.text(), kTextBytesMax, "text"));
  if (in.table_size() > kTableMax) return fail(bad("table"));
  for (const pb::Assignment& row : in.table()) {
    IMEX_TRY(ChannelAssignment assignment, read_assignment(row));
    out.table.push_back(std::move(assignment));
  }
  return out;
}

}  // namespace

pb::PeerMessage to_proto(const PeerPayload& payload) {
  pb::PeerMessage message;
  if (const auto* hello = std::get_if<PeerHello>(&payload)) {
    fill(*message.mutable_hello(), *hello);
  } else if (const auto* heartbeat = std::get_if<PeerHeartbeat>(&payload)) {
    message.mutable_heartbeat()->set_status(static_cast<std::uint32_t>(heartbeat->status));
  } else if (const auto* registry = std::get_if<RegistryMessage>(&payload)) {
    fill(*message.mutable_registry(), *registry);
  } else {
    message.mutable_goodbye();
  }
  return message;
}

Result<PeerPayload> from_proto(const pb::PeerMessage& message) {
  switch (message.kind_case()) {
    case pb::PeerMessage::kHello:
      return read_hello(message.hello());
    case pb::PeerMessage::kHeartbeat: {
      const std::uint32_t status = message.heartbeat().status();
      if (status > static_cast<std::uint32_t>(DaemonStatus::kUnavailable)) {
        return fail(bad("status"));
      }
      return PeerHeartbeat{static_cast<DaemonStatus>(status)};
    }
    case pb::PeerMessage::kGoodbye:
      return PeerGoodbye{};
    case pb::PeerMessage::kRegistry:
      return read_registry(message.registry());
    case pb::PeerMessage::KIND_NOT_SET:
      break;
  }
  return fail(bad("kind"));
}

}  // namespace imex::domain
