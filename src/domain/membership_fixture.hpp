/// The membership of node 0, whose peers, network and clock the test plays.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "domain/membership.hpp"
#include "membership_test_kit.hpp"

namespace imex::domain::testing_kit {

using Effects = std::vector<MembershipEffect>;

inline constexpr const char* kThree = "10.0.0.1\n10.0.0.2\n10.0.0.3\n";
inline constexpr const char* kNames = "node-a\nnode-b\nnode-c\n";

/// Node 0 of a domain under test.
class MembershipTest : public ::testing::Test {
 protected:
  MembershipConfig config = [] {
    MembershipConfig c;
    c.domain_id = id_of(0xd0);
    c.instance = id_of(1);
    c.boot_id = id_of(0xb0);
    c.version = "0.1.0";
    return c;
  }();
  SeededRandom random{7};
  Time now{1'000'000'000'000};
  std::optional<Membership> m;
  std::uint64_t next_stream = 1;

  Effects make(const char* list = kThree, NodeId self = 0) {
    m.emplace(config, random, now);
    return step(ListChanged{*parse_node_list(list), self});
  }
  Effects step(MembershipEvent event) { return m->step(std::move(event), now); }
  Effects after(Nanos d) {
    now = now + d;
    return step(Tick{});
  }
  /// Ticks at each deadline until `d` has passed; all effects.
  Effects run(Nanos d) {
    const Time end = now + d;
    Effects effects;
    while (m->next_deadline() <= end) {
      now = std::max(now, m->next_deadline());
      for (auto& e : step(Tick{})) effects.push_back(std::move(e));
    }
    now = end;
    return effects;
  }
  PeerView view(NodeId node) const { return m->peers().at(node); }
  PairState pair(NodeId node) const { return view(node).state; }

  Hello hello_of(NodeId node, std::uint64_t instance, const char* list = kThree) const {
    Hello h;
    h.version = "0.1.0";
    h.domain_id = config.domain_id;
    h.instance = id_of(instance);
    h.boot_id = id_of(0xb0 + node);
    h.node = node;
    h.target = 0;
    h.list = *parse_node_list(list);
    h.link_path = "/run/link";
    return h;
  }
  /// Answers the dial among `effects` to `node`.
  Effects answer(const Effects& effects, const Hello& hello,
                 HelloVerdict verdict = HelloVerdict::kAccepted) {
    return step(HelloAnswered{hello.node, attempt(effects, hello.node), verdict, hello});
  }
  static std::uint64_t attempt(const Effects& effects, NodeId node) {
    for (const Dial& d : all<Dial>(effects)) {
      if (d.node == node) return d.attempt;
    }
    ADD_FAILURE() << "no dial to node " << node;
    return 0;
  }
  /// READY with node 1 connected as instance 11, both ways; node 2 away. Returns our attempt.
  std::uint64_t ready_with_peer() {
    const Effects start = make();
    (void)step(GpusReady{});
    (void)answer(start, hello_of(1, 11));
    (void)step(HelloReceived{kInbound, hello_of(1, 11)});
    EXPECT_EQ(pair(1), PairState::kConnected);
    return attempt(start, 1);
  }
  static constexpr std::uint64_t kInbound = 100;

  /// The daemon of node 1 vanishes; `answers`: its machine resets the connections.
  Effects lose_peer(std::uint64_t our_attempt, bool answers) {
    Effects e = step(StreamLost{1, our_attempt, answers});
    for (auto& more : step(InboundClosed{kInbound})) e.push_back(std::move(more));
    return e;
  }
  /// Runs for `d` while the machine of node 1 refuses (or swallows) each dial.
  Effects run_away(Nanos d, bool answers) {
    const Time end = now + d;
    Effects effects;
    while (m->next_deadline() <= end) {
      now = std::max(now, m->next_deadline());
      Effects fresh = step(Tick{});
      for (const Dial& dial : all<Dial>(fresh)) {
        if (dial.node != 1) continue;
        for (auto& e : step(DialFailed{1, dial.attempt, "away", answers})) {
          effects.push_back(std::move(e));
        }
      }
      std::ranges::move(fresh, std::back_inserter(effects));
    }
    now = end;
    return effects;
  }
};

}  // namespace imex::domain::testing_kit
