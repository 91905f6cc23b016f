// A row of messages as a peer may send them, on streams that it opened and on the one that we did.
// Whatever is read survives being written; membership lets only those in that belong here; the
// registry takes any sequence.
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include <imex/peer/v1/peer.pb.h>

#include "base/assert.hpp"
#include "fixed_random.hpp"
#include "message_stream.hpp"
#include "peer_wire.hpp"

namespace {

using namespace imex;
using namespace imex::domain;

/// Node 0 of three, with nobody but the fuzzer to talk to.
class FuzzedNode {
 public:
  FuzzedNode() : membership_(config(), random_, now_), registry_(registry_config(), {}, {}) {
    step(ListChanged{list(), 0});
    step(GpusReady{});
  }

  void take(const PeerPayload& payload) {
    now_ = now_ + std::chrono::milliseconds(50);
    if (const auto* hello = std::get_if<PeerHello>(&payload)) {
      greet(*hello);
    } else if (const auto* heartbeat = std::get_if<PeerHeartbeat>(&payload)) {
      step(HeartbeatReceived{1, last_instance_, heartbeat->status});
    } else if (const auto* message = std::get_if<RegistryMessage>(&payload)) {
      static_cast<void>(registry_.step(RegistryMessageArrived{1, *message}, now_));
      IMEX_ASSERT(registry_.table().size() <= kTableMax, "the table is bounded");
    } else {
      step(GoodbyeReceived{1, last_instance_});
    }
  }

 private:
  static constexpr std::size_t kTableMax = 65'536;

  static NodeList list() { return parse_node_list("10.0.0.1\n10.0.0.2\nnode-c\n").value(); }
  static MembershipConfig config() {
    MembershipConfig config;
    config.instance = Uuid{{std::byte{1}}};
    config.boot_id = Uuid{{std::byte{2}}};
    return config;
  }
  static RegistryConfig registry_config() {
    RegistryConfig config;
    config.channels_max = 64;
    return config;
  }

  /// In turn as somebody's greeting and as the answer to ours.
  void greet(const PeerHello& hello) {
    last_instance_ = hello.hello.instance;
    if (++greetings_ % 2 == 0 && attempt_ != 0) {
      step(HelloAnswered{dialled_, attempt_, hello.verdict, hello.hello});
    } else {
      greeted_ = &hello.hello;
      step(HelloReceived{greetings_, hello.hello});
      greeted_ = nullptr;
    }
  }

  void step(MembershipEvent event) {
    for (const MembershipEffect& effect : membership_.step(std::move(event), now_)) {
      if (const auto* dial = std::get_if<Dial>(&effect)) {
        dialled_ = dial->node;
        attempt_ = dial->attempt;
      } else if (const auto* answer = std::get_if<AnswerHello>(&effect)) {
        check(*answer);
      }
    }
  }

  void check(const AnswerHello& answer) const {
    if (greeted_ == nullptr || answer.verdict != HelloVerdict::kAccepted) return;
    IMEX_ASSERT(greeted_->domain_id == Uuid{}, "no stranger gets in");
    IMEX_ASSERT(greeted_->instance != config().instance, "nor this node itself");
    IMEX_ASSERT(greeted_->node == 1 || greeted_->node == 2, "nor somebody without a slot");
    IMEX_ASSERT(greeted_->target == 0, "nor somebody who wanted another node");
    IMEX_ASSERT(lists_agree(list(), greeted_->list, ListRule::kPrefix), "nor with another list");
  }

  fuzz::FixedRandom random_;
  Time now_{1'000'000'000};
  Membership membership_;
  ChannelRegistry registry_;
  Uuid last_instance_;
  std::uint64_t greetings_ = 0, attempt_ = 0;
  NodeId dialled_ = kNoNode;
  const Hello* greeted_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedNode node;
  fuzz::MessageStream stream(data, size);
  while (!stream.empty()) {
    peer::v1::PeerMessage message;
    if (!fuzz::parse(message, stream.next())) continue;
    const auto payload = from_proto(message);
    if (!payload) {
      IMEX_ASSERT(!payload.error().message.empty(), "a refusal says why");
      continue;
    }
    const peer::v1::PeerMessage written = to_proto(*payload);
    const auto again = from_proto(written);
    IMEX_ASSERT(again, "what was read can be written and read again");
    IMEX_ASSERT(to_proto(*again).SerializeAsString() == written.SerializeAsString(),
                "and means the same");
    node.take(*payload);
  }
  return 0;
}
