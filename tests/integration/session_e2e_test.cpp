// libimex against real daemons: the programs of the guides, a session over a daemon's death, and a
// peer on another node.
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <imex/imex.hpp>

#include "cluster.hpp"
#include "testing/await_event.hpp"
#include "testing/test_daemon.hpp"

namespace imex::test {
namespace {

using domain::client::await_event;
using domain::client::Peer;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Kind = SessionEvent::Kind;

struct Outcome {
  std::string output;
  int status = -1;
};

Outcome run_example(std::vector<std::string> arguments) {
  arguments.front() = std::string(IMEX_EXAMPLES) + "/" + arguments.front();
  Peer program(std::move(arguments));
  Outcome outcome;
  while (const auto line = program.line()) outcome.output += *line + "\n";
  outcome.status = program.finish();
  return outcome;
}

TEST(SessionE2e, TheGuidesWorkOnOneNodeAndAcrossTwo) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  const std::string near = cluster[0].channel_path(0), far = cluster[1].channel_path(0);
  const auto shown = AllOf(ContainsRegex("mapped 2097152 bytes of rank 0, reads \"hello from"),
                           ContainsRegex("one way: median [0-9]+ ns"));
  const Outcome one = run_example({"01-share-memory", near});
  EXPECT_EQ(one.status, 0);
  EXPECT_THAT(one.output, shown);
  const Outcome two = run_example({"01-share-memory", near, far});
  EXPECT_EQ(two.status, 0);
  EXPECT_THAT(two.output, AllOf(shown, HasSubstr("of node 1,")));
  EXPECT_EQ(run_example({"02-in-c", near}).status, 0);
  const Outcome lost = run_example({"03-losing-a-peer", far});
  EXPECT_EQ(lost.status, 0);
  EXPECT_THAT(lost.output, HasSubstr("rank 1 is lost (peer_lost)"));
}

TEST(SessionE2e, APeerOnAnotherNodeIsLostWithItsRank) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  auto session = Session::open({.channel = cluster[0].channel_path(0)});
  ASSERT_TRUE(session) << session.error().to_string();
  Peer peer({IMEX_TEST_PEER, "export", cluster[1].channel_path(0), "5", "4096"});
  const auto hex = peer.line();
  ASSERT_TRUE(hex);
  auto imported = session->import_memory(Handle::from_hex(*hex).value(), {.rank = 0});
  ASSERT_TRUE(imported) << imported.error().to_string();
  peer.kill();
  Signal signal(*reinterpret_cast<SignalCell*>(imported->data()));
  const auto waited =
      signal
          .wait_until(std::uint64_t{1} << 62, {.deadline = Clock::now() + kPatience,
                                               .abort = session->default_scope().cell()})
          .to_result();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::kPeerLost) << waited.error().to_string();
  EXPECT_EQ(waited.error().rank, 5U);
}

/// An exporter's process on node 1, and who imports from it: a session there and one on node 0. The
/// lease is longer than any wait here: what is told in time is told at the restart.
class DaemonAway : public testing::Test {
 protected:
  void SetUp() override {
    cluster.set("IMEX_X_LEASE", "600s");
    cluster.start();
    ASSERT_TRUE(cluster.wait_up());
    peer.emplace(std::vector<std::string>{IMEX_TEST_PEER, "export", cluster[1].channel_path(0), "5",
                                          "4096"});
    const auto hex = peer->line();
    ASSERT_TRUE(hex);
    for (const std::size_t node : {1U, 0U}) {
      auto session = Session::open({.channel = cluster[node].channel_path(0)});
      ASSERT_TRUE(session) << session.error().to_string();
      auto imported = session->import_memory(Handle::from_hex(*hex).value(), {.rank = 0});
      ASSERT_TRUE(imported) << imported.error().to_string();
      sessions.push_back(std::move(*session));
      imports.push_back(std::move(*imported));
    }
    cluster[1].kill(SIGKILL);
    ASSERT_EQ(cluster[1].wait_exit(), 128 + SIGKILL);
  }
  void expect_told(bool of_a_loss) {
    for (Session& session : sessions) {
      const auto event = await_event(session, Kind::kExporterLost, kPatience);
      ASSERT_TRUE(event) << cluster[1].log();
      EXPECT_EQ(event->reason != Errc::kOk, of_a_loss) << errc_name(event->reason);
      EXPECT_EQ(event->rank, 5U);
      const auto aborted = session.default_scope().error();
      ASSERT_EQ(aborted.has_value(), of_a_loss);
      if (of_a_loss) {
        EXPECT_EQ(aborted->code, Errc::kPeerLost);
      }
    }
  }
  Cluster cluster{2};
  std::optional<Peer> peer;
  std::vector<Session> sessions;
  std::vector<Import> imports;
};

TEST_F(DaemonAway, AProcessThatWasKilledMeanwhileIsLostAtTheRestart) {
  peer->kill();
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  expect_told(true);
}

TEST_F(DaemonAway, AProcessThatEndsInOrderMeanwhileIsNoLoss) {
  std::jthread ending([this] { EXPECT_EQ(peer->finish(), 0); });
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  expect_told(false);
}

TEST(SessionE2e, ADaemonKilledAndStartedAgainHarmsNoSession) {
  Cluster cluster(1);
  cluster.start();
  const std::string channel = cluster[0].channel_path(0);
  auto session = Session::open({.channel = channel});
  ASSERT_TRUE(session) << session.error().to_string();
  auto memory = Allocation::create(4096);
  ASSERT_TRUE(memory);
  auto exported = session->export_memory(*memory, {.rank = 0});
  ASSERT_TRUE(exported) << exported.error().to_string();
  auto imported = session->import_memory(exported->handle(), {.rank = 0});
  ASSERT_TRUE(imported) << imported.error().to_string();
  cluster[0].kill(SIGKILL);
  ASSERT_EQ(cluster[0].wait_exit(), 128 + SIGKILL);
  memory->data()[0] = std::byte{9};
  EXPECT_EQ(imported->data()[0], std::byte{9});
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  ASSERT_TRUE(await_event(*session, Kind::kDaemonResumed, kPatience));
  EXPECT_FALSE(session->default_scope().error());
  auto second = Session::open({.channel = channel});
  ASSERT_TRUE(second) << second.error().to_string();
  const auto again = second->import_memory(exported->handle());
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->data()[0], std::byte{9});
}

}  // namespace
}  // namespace imex::test
