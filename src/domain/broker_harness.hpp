/// Test help: a Broker with a ledger of descriptors and short words for what clients do.
#pragma once

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "domain/broker.hpp"
#include "seal.hpp"
#include "seeded_random.hpp"

namespace imex::domain {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline Uuid uuid_of(std::uint8_t tag) {
  Uuid id;
  id.bytes.fill(static_cast<std::byte>(tag));
  return id;
}

inline fabric::Gpu gpu_of(std::uint32_t index, std::uint64_t uid, std::uint32_t clique) {
  return {index, uid, {uuid_of(0xfa), clique}, true};
}

struct Client {
  ConnectionId connection = 0;
  SessionId session = 0;
  Secret token{};
  FdToken page = 0, pidfd = 0;
  std::uint32_t channel = 1;
};

/// One node: the broker, the descriptors it holds, and everything it did in the last step.
class Node {
 public:
  explicit Node(BrokerConfig config, std::optional<BrokerMemory> memory = std::nullopt,
                Time start = Time{0})
      : now(start), config_(std::move(config)), random_(config_.node + 1U) {
    if (memory) {
      for (const auto& session : memory->sessions) {
        if (session.pidfd != 0) held_.insert(session.pidfd);
      }
    }
    broker.emplace(config_, random_, now, std::move(memory));
  }

  static BrokerConfig config(NodeId node = 0) {
    BrokerConfig c;
    c.domain_id = uuid_of(0xd0);
    c.instance = uuid_of(static_cast<std::uint8_t>(0x10 + node));
    c.boot_id = uuid_of(0xb0);
    c.key.fill(static_cast<std::byte>(0x77 + node));
    c.node = node;
    return c;
  }

  /// The daemon dies; one that resumes takes its place.
  void restart(const BrokerMemory& memory, Nanos after = seconds(1)) {
    held_.clear();
    for (const auto& session : memory.sessions) held_.insert(session.pidfd);
    now = now + after;
    broker.emplace(config_, random_, now, memory);
  }

  FdToken new_fd() {
    held_.insert(next_fd);
    return next_fd++;
  }

  const std::vector<BrokerEffect>& step(BrokerEvent event) {
    effects = broker->step(std::move(event), now);
    for (const BrokerEffect& effect : effects) {
      if (const auto* released = std::get_if<ReleaseFd>(&effect)) {
        EXPECT_EQ(held_.erase(released->fd), 1U)
            << "descriptor " << released->fd << " released twice or never held";
      } else if (const auto* sent = std::get_if<SendFrame>(&effect)) {
        for (const FdToken fd : sent->fds) EXPECT_TRUE(held_.contains(fd)) << "sent after release";
      }
    }
    EXPECT_GE(held_.size(), broker->size().fds);
    EXPECT_EQ(held_.size(), broker->size().fds + kept_by_test) << "a descriptor was lost";
    return effects;
  }

  void pass(Nanos time) {
    const Time until = now + time;
    std::vector<BrokerEffect> all;
    while (broker->next_deadline() <= until) {
      now = std::max(now, broker->next_deadline());
      const auto& some = step(TimePassed{});
      all.insert(all.end(), some.begin(), some.end());
    }
    now = until;
    effects = std::move(all);
  }

  const std::vector<BrokerEffect>& frame(ConnectionId connection, Message message,
                                         std::size_t fd_count = 0) {
    std::vector<FdToken> fds;
    for (std::size_t i = 0; i < fd_count; ++i) fds.push_back(new_fd());
    last_fds = fds;
    return step(FrameArrived{connection, Frame{++request, std::move(message)}, std::move(fds)});
  }

  ConnectionId connect(std::uint32_t channel = 1, std::uint32_t uid = 1000) {
    step(ClientConnected{next_connection, channel, uid});
    return next_connection++;
  }

  Client open(std::uint32_t channel = 1, std::uint32_t gpu = 0, std::uint32_t uid = 1000) {
    Client client;
    client.connection = connect(channel, uid);
    frame(client.connection, Open{0, {}, gpu, 0}, 2);
    const Reply r = reply();
    EXPECT_EQ(r.code, Errc::kOk) << view_error_text(r.text);
    client.session = r.id;
    client.token = r.token;
    client.channel = channel;
    client.page = last_fds[0];
    client.pidfd = last_fds[1];
    return client;
  }

  Reply export_memory(const Client& client, std::uint32_t rank = 0, std::uint32_t scope = kNoScope,
                      std::uint64_t bytes = 4096) {
    frame(client.connection, ExportRequest{0, 1, rank, scope, bytes, 0}, 2);
    return reply();
  }

  Reply import(const Client& client, const Handle& handle, std::uint32_t rank = 1,
               std::uint32_t scope = 0) {
    frame(client.connection, ImportRequest{handle, 0, rank, scope});
    return reply();
  }

  // ---- what the last step did ----

  template <class T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const BrokerEffect& effect : effects) {
      if (const auto* match = std::get_if<T>(&effect)) found.push_back(*match);
    }
    return found;
  }
  template <class T>
  [[nodiscard]] std::vector<std::pair<ConnectionId, T>> sent() const {
    std::vector<std::pair<ConnectionId, T>> found;
    for (const SendFrame& each : all<SendFrame>()) {
      if (const auto* match = std::get_if<T>(&each.frame.message))
        found.emplace_back(each.connection, *match);
    }
    return found;
  }
  [[nodiscard]] Reply reply() const {
    const auto replies = sent<Reply>();
    if (replies.empty())
      return Reply{.code = Errc::kInternal, .text = make_error_text("no reply was sent")};
    return replies.back().second;
  }
  [[nodiscard]] bool replied() const { return !sent<Reply>().empty(); }
  [[nodiscard]] std::vector<Event> events(Event::Kind kind) const {
    std::vector<Event> found;
    for (const auto& [connection, event] : sent<Event>()) {
      if (event.kind == kind) found.push_back(event);
    }
    return found;
  }
  [[nodiscard]] bool closed(ConnectionId id) const {
    const auto closes = all<CloseConnection>();
    return std::ranges::any_of(closes, [id](const auto& c) { return c.connection == id; });
  }
  [[nodiscard]] bool tripped(SessionId session, std::uint32_t scope, Errc code,
                             std::uint32_t rank) const {
    const auto aborts = all<SetAbort>();
    return std::ranges::any_of(aborts, [&](const SetAbort& a) {
      return a.session == session && a.scope == scope && a.code == code && a.rank == rank;
    });
  }
  /// Position of the first effect of the kind; effects.size() if there is none.
  template <class T>
  [[nodiscard]] std::size_t position() const {
    const auto at =
        std::ranges::find_if(effects, [](const auto& e) { return std::holds_alternative<T>(e); });
    return static_cast<std::size_t>(at - effects.begin());
  }
  [[nodiscard]] std::size_t held() const { return held_.size(); }

  std::optional<Broker> broker;
  Time now;
  std::vector<BrokerEffect> effects;
  std::vector<FdToken> last_fds;
  FdToken next_fd = 1;
  ConnectionId next_connection = 1;
  std::uint32_t request = 0;
  std::size_t kept_by_test = 0;

 private:
  BrokerConfig config_;
  SeededRandom random_;
  std::set<FdToken> held_;
};

}  // namespace imex::domain
