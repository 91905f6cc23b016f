/// Peers' messages as the state machines know them, and their translation to proto/imex/peer. What
/// comes in is checked here; no gRPC type goes further than this file, peer_server.cpp and
/// peer_dialer.cpp.
#pragma once

#include <optional>
#include <variant>

#include "domain/channel_registry.hpp"
#include "domain/membership.hpp"

namespace imex::peer::v1 {
class PeerMessage;
}

namespace imex::domain {

struct PeerHello {
  Hello hello;
  HelloVerdict verdict = HelloVerdict::kAccepted;  ///< of an answer
};
struct PeerHeartbeat {
  DaemonStatus status = DaemonStatus::kUnavailable;
};
struct PeerGoodbye {};

using PeerPayload = std::variant<PeerHello, PeerHeartbeat, PeerGoodbye, RegistryMessage>;

[[nodiscard]] peer::v1::PeerMessage to_proto(const PeerPayload& payload);
/// Errors: kDataLoss, naming the field.
[[nodiscard]] Result<PeerPayload> from_proto(const peer::v1::PeerMessage& message);

}  // namespace imex::domain
