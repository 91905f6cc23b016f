#include "tree.hpp"

#include <gmock/gmock.h>

#include "base/version.hpp"

namespace imex::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Outcome {
  int status;
  std::string out, err;
};
Outcome run(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "imex");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CommandTree tree;
  const int status = tree.run(static_cast<int>(arguments.size()), arguments.data());
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(CommandTreeTest, VersionIsTheLineOfThisBuild) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, version_line() + "\n");
}

TEST(CommandTreeTest, EveryCommandHasHelpWithAnExample) {
  const std::vector<std::vector<const char*>> commands = {{"--help"},
                                                          {"domain", "--help"},
                                                          {"domain", "show", "--help"},
                                                          {"channel", "--help"},
                                                          {"channel", "list", "--help"},
                                                          {"channel", "grant", "--help"},
                                                          {"channel", "release", "--help"},
                                                          {"config", "--help"},
                                                          {"config", "show", "--help"},
                                                          {"model", "show", "--help"},
                                                          {"bench", "--help"},
                                                          {"bench", "memory", "--help"},
                                                          {"completion", "--help"}};
  for (const auto& command : commands) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0) << command.front();
    EXPECT_THAT(outcome.out, HasSubstr("Example")) << command.front();
  }
}

TEST(CommandTreeTest, UnknownOptionIsWrongUseAndSaysWhich) {
  const Outcome outcome = run({"domain", "show", "--colour"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--colour"));
  EXPECT_EQ(outcome.out, "");
}

TEST(CommandTreeTest, UnknownCommandIsNamedWithTheKnownOnes) {
  EXPECT_THAT(run({"chanel"}).err,
              HasSubstr("no command 'chanel' (invalid_argument); commands are domain, channel"));
  EXPECT_THAT(run({"channel", "grnat"}).err, HasSubstr("commands are list, grant, release"));
  EXPECT_THAT(run({}).err, HasSubstr("imex: which command?"));
  EXPECT_EQ(run({"channel"}).status, 2);
}

TEST(CommandTreeTest, WrongValueNamesTheAcceptedOnes) {
  const Outcome outcome = run({"--format", "xml", "domain", "show"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("table"));
  EXPECT_THAT(outcome.err, HasSubstr("jsonl"));
}

TEST(CommandTreeTest, ErrorsComeAsJsonWhereJsonWasAsked) {
  const Outcome outcome = run({"--format", "json", "channel", "grant"});
  EXPECT_EQ(outcome.status, 2);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["error"]["code"], "invalid_argument");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("workload"));
}

TEST(CommandTreeTest, TimeoutIsChecked) {
  EXPECT_EQ(run({"--timeout", "soon", "domain", "show"}).status, 2);
  EXPECT_EQ(run({"--timeout", "0s", "domain", "show"}).status, 2);
}

TEST(CommandTreeTest, GlobalOptionsMayStandBehindTheCommand) {
  const Outcome outcome =
      run({"channel", "release", "job", "--state-dir", "/nonexistent", "--format", "json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(Json::parse(outcome.out)["error"]["code"], "not_found");
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent/run/control.sock"));
}

TEST(CommandTreeTest, CompletionOfAShellStartsWithItsComment) {
  EXPECT_THAT(run({"completion", "bash"}).out, StartsWith("# bash completion for imex"));
}

}  // namespace
}  // namespace imex::cli
