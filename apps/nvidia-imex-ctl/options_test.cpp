#include "options.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::ctl {
namespace {

Result<Options> parse(std::vector<const char*> arguments) { return parse_options(arguments); }

TEST(CtlOptionsTest, TheSpellingsOfKnownCallersAreTaken) {
  // Kubernetes daemon, Kubernetes plugin, DCGM, Slurm (imex-service section 12).
  auto o = parse({"-c", "/imexd/imexd.cfg", "-q"});
  ASSERT_TRUE(o);
  EXPECT_EQ(o->verb, Verb::kStatus);
  EXPECT_EQ(o->config, "/imexd/imexd.cfg");
  o = parse({"-q", "--u=/etc/nvidia-imex/imex_ctrl.sock"});
  ASSERT_TRUE(o);
  EXPECT_EQ(o->socket, "/etc/nvidia-imex/imex_ctrl.sock");
  o = parse({"-N", "-j"});
  ASSERT_TRUE(o);
  EXPECT_EQ(o->verb, Verb::kDomain);
  EXPECT_TRUE(o->json);
  EXPECT_EQ(o->config, "/etc/nvidia-imex/config.cfg");
  o = parse({"-N", "-c", "/etc/nvidia-imex/config.cfg"});
  ASSERT_TRUE(o);
}

TEST(CtlOptionsTest, SocketPathsMayBeWrittenInFourWays) {
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"-q", "-u", "/s"}, {"-q", "-u=/s"}, {"-q", "--u", "/s"}, {"-q", "--u=/s"}}) {
    const auto o = parse(words);
    ASSERT_TRUE(o);
    EXPECT_EQ(o->socket, "/s");
  }
}

TEST(CtlOptionsTest, AddressAndPortAreTwoWords) {
  const auto o = parse({"-i", "10.0.0.1", "50005", "-nHj"});
  ASSERT_TRUE(o);
  EXPECT_EQ(o->address, "10.0.0.1");
  EXPECT_EQ(o->port, 50005);
  EXPECT_EQ(o->verb, Verb::kMonitor);
  EXPECT_TRUE(o->host_names && o->json);
  EXPECT_FALSE(parse({"-q", "-i", "10.0.0.1"}));
  EXPECT_FALSE(parse({"-q", "-i", "10.0.0.1", "70000"}));
}

TEST(CtlOptionsTest, ATimeoutIsInMillisecondsAndGoesWithSubscribe) {
  EXPECT_EQ(parse({"-s", "-t", "1500"})->timeout, std::chrono::milliseconds(1500));
  EXPECT_FALSE(parse({"-s", "-t", "0"}));
  EXPECT_FALSE(parse({"-s", "-t", "1s"}));
  EXPECT_FALSE(parse({"-q", "-t", "1500"}));
}

TEST(CtlOptionsTest, HelpAndVersionWinOverEverything) {
  EXPECT_EQ(parse({"-q", "--help"})->verb, Verb::kHelp);
  EXPECT_EQ(parse({"-h"})->verb, Verb::kHelp);
  EXPECT_EQ(parse({"--version", "-N"})->verb, Verb::kVersion);
}

TEST(CtlOptionsTest, WrongUseIsRefusedAndNamesTheOption) {
  const auto message = [](std::vector<const char*> words) {
    const auto o = parse(std::move(words));
    return o ? std::string("accepted") : o.error().to_string();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message({}), HasSubstr("one of -n, -N, -q, -s is needed"));
  EXPECT_THAT(message({"-q", "-N"}), HasSubstr("only one of"));
  EXPECT_THAT(message({"-q", "-u", "/s", "-c", "/c"}), HasSubstr("only one of -i, -u, -c"));
  EXPECT_THAT(message({"-q", "-j"}), HasSubstr("-j"));
  EXPECT_THAT(message({"-q", "-c"}), HasSubstr("-c needs a file"));
  EXPECT_THAT(message({"-q", "--u="}), HasSubstr("--u needs"));
  EXPECT_THAT(message({"-q=1"}), HasSubstr("takes no value"));
  EXPECT_THAT(message({"--frobnicate"}), HasSubstr("--frobnicate"));
  EXPECT_THAT(message({"now"}), HasSubstr("'now'"));
  EXPECT_THAT(message({"-d"}), HasSubstr("not documented"));
  EXPECT_THAT(message({"-m"}), HasSubstr("not documented"));
}

TEST(CtlOptionsTest, HelpNamesEveryOptionAndShowsExamples) {
  for (const char* option : {"-q", "-s", "-N", "-n", "-j", "-H", "-t", "-c", "-i", "-u",
                             "--u=", "-d", "-m", "--deep", "--version", "examples"}) {
    EXPECT_THAT(help_text(), ::testing::HasSubstr(option));
  }
}

}  // namespace
}  // namespace imex::ctl
