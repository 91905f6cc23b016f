// Processes that export, import and end, some by SIGKILL at each step, against the shipped rules.
#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "testing/test_daemon.hpp"

namespace imex::domain::client {
namespace {

TEST(SessionLeakTest, ProcessesThatEndAtAnyStepLeaveNothingBehind) {
  TestDaemon daemon;
  const std::size_t descriptors = open_descriptors();
  {
    Peer peer(
        {IMEX_TEST_PEER, "cycles", daemon.channel(0), std::to_string(IMEX_TEST_CYCLES), "42"});
    std::optional<std::string> line;
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (!(line = peer.line()) && std::chrono::steady_clock::now() < until) {
    }
    EXPECT_EQ(line, "done");
    EXPECT_EQ(peer.finish(), 0);
  }
  // Memory files live as long as a descriptor or a mapping: none is left here, nor in any process.
  EXPECT_TRUE(daemon.reaches([](const BrokerSize& size) {
    return size.sessions == 0 && size.exports == 0 && size.imports == 0 && size.fds == 0 &&
           size.connections == 0;
  }));
  EXPECT_EQ(open_descriptors(), descriptors);
}

}  // namespace
}  // namespace imex::domain::client
