// The examples of docs/guide/ do what their guides say.
#include <string>

#include <gmock/gmock.h>

#include "testing/test_daemon.hpp"

namespace imex {
namespace {

using domain::client::Peer;
using domain::client::TestDaemon;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

struct Outcome {
  std::string output;
  int status = -1;
};

Outcome run(std::vector<std::string> arguments) {
  arguments.front() = std::string(IMEX_EXAMPLES) + "/" + arguments.front();
  Peer program(std::move(arguments));
  Outcome outcome;
  while (const auto line = program.line()) outcome.output += *line + "\n";
  outcome.status = program.finish();
  return outcome;
}

TEST(ExamplesTest, ShareMemoryPrintsWhatWasReadAndTheLatency) {
  TestDaemon daemon;
  const Outcome outcome = run({"01-share-memory", daemon.channel(0), daemon.channel(0)});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output,
              AllOf(ContainsRegex("rank 1: mapped 2097152 bytes of rank 0, reads \"hello from"),
                    ContainsRegex("20000 round trips; one way: median [0-9]+ ns, p99 [0-9]+ ns")));
}

TEST(ExamplesTest, InCCountsAndHearsOfTheEnd) {
  TestDaemon daemon;
  const Outcome outcome = run({"02-in-c", daemon.channel(1)});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 0: rank 1 has answered 10 times"),
                                    HasSubstr("rank 1: read 10 squares, the last is 100"),
                                    HasSubstr("rank 1: event 1: rank 0 has ended (ok)")));
}

TEST(ExamplesTest, LosingAPeerNamesTheRankAndGoesOn) {
  TestDaemon daemon;
  const Outcome outcome = run({"03-losing-a-peer", daemon.channel(0)});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output,
              AllOf(ContainsRegex("the wait ended [0-9]+ us after SIGKILL: rank 1 is lost"),
                    HasSubstr("the exporter, rank 1, is gone (peer_lost)"),
                    HasSubstr("the next wait was ended by its user: aborted by rank 0")));
}

TEST(ExamplesTest, WrongUseIsToldApart) {
  EXPECT_EQ(run({"01-share-memory", "a", "b", "c"}).status, 2);
  EXPECT_EQ(run({"02-in-c", "/nonexistent/channel0"}).status, 1);
}

}  // namespace
}  // namespace imex
