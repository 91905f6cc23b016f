// Bytes as they come from a channel socket or a link: each 256 are one frame, the first byte after
// them says on which connection and with how many descriptors. Whatever decodes must survive the
// wire again, and a Broker that is fed all of it must keep its ledger of descriptors.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <span>

#include "base/assert.hpp"
#include "domain/broker.hpp"
#include "fixed_random.hpp"

namespace {

using namespace imex;
using namespace imex::domain;

class FuzzedBroker {
 public:
  FuzzedBroker() : broker_(config(), random_, Time{0}) {
    step(FabricChanged{{{0, 1, {}, true}, {1, 2, {}, true}}});
    step(ChannelOpened{1, {}, kAnyUser});
    for (ConnectionId id = 1; id <= 3; ++id) step(ClientConnected{id, 1, 1000});
    step(LinkConnected{4, 1, Uuid{{std::byte{9}}}});
    feed(1, Frame{1, Open{0, {}, 0, 0}}, 2);  // so that requests reach further than the door
    feed(2, Frame{1, Open{0, {}, 1, 0}}, 2);
    feed(1, Frame{2, ExportRequest{0, 1, 0, 0, 4096, 0}}, 2);
  }
  void feed(ConnectionId id, const Frame& frame, std::size_t descriptors) {
    std::vector<FdToken> fds;
    for (std::size_t i = 0; i < descriptors; ++i) {
      held_.insert(++next_fd_);
      fds.push_back(next_fd_);
    }
    step(FrameArrived{id, frame, fds});
  }
  void pass(Nanos time) {
    now_ = now_ + time;
    if (broker_.next_deadline() <= now_) step(TimePassed{});
  }
  /// The handle of the first export, so that mutations of a good one are tried.
  [[nodiscard]] const Handle& handle() const { return handle_; }

 private:
  static BrokerConfig config() {
    BrokerConfig c;
    c.instance = Uuid{{std::byte{8}}};
    return c;
  }
  void step(BrokerEvent event) {
    for (const BrokerEffect& effect : broker_.step(std::move(event), now_)) {
      if (const auto* released = std::get_if<ReleaseFd>(&effect)) {
        IMEX_ASSERT(held_.erase(released->fd) == 1, "descriptor released once");
      } else if (const auto* sent = std::get_if<SendFrame>(&effect)) {
        for (const FdToken fd : sent->fds)
          IMEX_ASSERT(held_.contains(fd), "descriptor held when sent");
        const auto* reply = std::get_if<Reply>(&sent->frame.message);
        if (reply != nullptr && reply->generation == 1 && reply->code == Errc::kOk)
          handle_ = reply->handle;
      }
    }
    IMEX_ASSERT(held_.size() == broker_.size().fds, "no descriptor is lost");
  }

  fuzz::FixedRandom random_;
  Broker broker_;
  Time now_{};
  std::set<FdToken> held_;
  FdToken next_fd_ = 0;
  Handle handle_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kStride = kFrameBytes + 1;
  FuzzedBroker broker;
  auto rest = std::as_bytes(std::span(data, size));
  static_cast<void>(decode(rest));  // any length
  while (rest.size() >= kStride) {
    const auto frame = decode(rest.first(kFrameBytes));
    const auto how = std::to_integer<unsigned>(rest[kFrameBytes]);
    rest = rest.subspan(kStride);
    if (!frame) continue;
    const auto again = decode(encode(*frame));
    IMEX_ASSERT(again && *again == *frame, "what was decoded survives the wire");
    Frame sent = *frame;
    auto* import = std::get_if<ImportRequest>(&sent.message);
    if (import != nullptr && (how & 0x40U) != 0) import->handle = broker.handle();
    broker.feed(1 + how % 4, sent, how / 4 % 4);
    if ((how & 0x80U) != 0) broker.pass(std::chrono::milliseconds(50));
  }
  return 0;
}
