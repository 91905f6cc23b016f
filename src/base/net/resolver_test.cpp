#include "net/resolver.hpp"

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <gmock/gmock.h>

#include "os/file.hpp"

namespace imex::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

TEST(CanonicalAddress, TakesLiteralsOnly) {
  EXPECT_EQ(canonical_address("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(canonical_address("2001:DB8:0:0::1"), "2001:db8::1");
  EXPECT_EQ(canonical_address("fe80::1%eth0"), "fe80::1%eth0");
  EXPECT_EQ(canonical_address("10.0.0.1%eth0"), "");
  EXPECT_EQ(canonical_address("node-1"), "");
  EXPECT_EQ(canonical_address("10.0.0"), "");
}

TEST(EndpointText, BracketsVersion6) {
  EXPECT_EQ(endpoint_text("10.0.0.1", 50000), "10.0.0.1:50000");
  EXPECT_EQ(endpoint_text("::1", 1), "[::1]:1");
}

TEST(ParseHosts, ReadsAliasesCommentsAndSkipsBadLines) {
  const HostsTable table = parse_hosts(
      "127.0.0.1\tlocalhost  loop # home\n\n# all comment\nnot-an-address name\n"
      "10.0.0.7\tnode-0\r\n10.0.0.8 node-0\n2001:db8::1 six");
  EXPECT_THAT(table.at("localhost"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(table.at("loop"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(table.at("node-0"), ElementsAre("10.0.0.7", "10.0.0.8"));
  EXPECT_THAT(table.at("six"), ElementsAre("2001:db8::1"));
  EXPECT_EQ(table.count("name"), 0U);
}

class ResolverTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("imex-resolver-");
    ASSERT_TRUE(made);
    directory_ = *made;
    hosts_path_ = directory_ + "/hosts";
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(directory_)); }

  void write_hosts(const std::string& text) { std::ofstream(hosts_path_, std::ios::trunc) << text; }
  Resolver::Config config() {
    Resolver::Config config;
    config.hosts_path = hosts_path_;
    config.hosts_only_prefix = "compute-domain-daemon-";
    return config;
  }
  std::string resolve(Resolver& resolver, const std::string& name) {
    std::optional<std::string> answer;
    resolver.resolve(name, [&](std::string address) { answer = std::move(address); });
    EXPECT_FALSE(answer) << "the callback must come later";
    EXPECT_TRUE(loop_.run_until([&] { return answer.has_value(); }, loop_.now() + seconds(10)));
    return answer.value_or("no answer");
  }

  EventLoop loop_;
  std::string directory_, hosts_path_;
};

TEST_F(ResolverTest, TheHostsFileAnswersAndIsReadAnewOnDemand) {
  write_hosts("10.1.2.3 node-a\n");
  Resolver resolver(loop_, config());
  EXPECT_EQ(resolve(resolver, "node-a"), "10.1.2.3");
  EXPECT_EQ(resolve(resolver, "192.168.0.1"), "192.168.0.1");
  write_hosts("10.1.2.4 node-a\n");
  EXPECT_EQ(resolve(resolver, "node-a"), "10.1.2.3");
  resolver.forget();
  EXPECT_EQ(resolve(resolver, "node-a"), "10.1.2.4");
}

TEST_F(ResolverTest, NamesOfTheHostsFileOnlyAreUnknownAtOnce) {
  write_hosts("");
  Resolver resolver(loop_, config());
  const Time start = loop_.now();
  for (int i = 0; i < 18; ++i) {
    EXPECT_EQ(resolve(resolver, "compute-domain-daemon-" + std::to_string(i)), "");
  }
  EXPECT_LT(loop_.now() - start, milliseconds(500));
}

TEST_F(ResolverTest, AnUnknownNameIsAnsweredInTime) {
  write_hosts("");
  auto chosen = config();
  chosen.timeout = milliseconds(300);
  Resolver resolver(loop_, chosen);
  const Time start = loop_.now();
  EXPECT_EQ(resolve(resolver, "no-such-host.invalid"), "");
  EXPECT_LT(loop_.now() - start, seconds(2));
  // Remembered: the second answer asks nobody.
  const Time again = loop_.now();
  EXPECT_EQ(resolve(resolver, "no-such-host.invalid"), "");
  EXPECT_LT(loop_.now() - again, milliseconds(100));
}

std::ptrdiff_t threads_of_this_process() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

TEST_F(ResolverTest, ThreadsThatAskNobodyEndWithTheResolver) {
  write_hosts("");
  const auto ask = [this] {
    Resolver resolver(loop_, config());
    resolve(resolver, "localhost");  // from the system: our own table is empty
  };
  // One that has been joined may still be listed for a moment.
  const auto settled = [](std::ptrdiff_t wanted) {
    for (int i = 0; i < 1000 && threads_of_this_process() > wanted; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return threads_of_this_process() <= wanted;
  };
  ask();  // a sanitizer's own thread comes with the first of ours
  static_cast<void>(settled(1));
  const auto before = threads_of_this_process();
  for (int i = 0; i < 20; ++i) ask();
  EXPECT_TRUE(settled(before)) << threads_of_this_process() << ", before " << before;
}

TEST_F(ResolverTest, AnswersAfterTheResolverIsGoneAreDropped) {
  write_hosts("");
  bool called = false;
  {
    Resolver resolver(loop_, config());
    resolver.resolve("late.invalid", [&](const std::string&) { called = true; });
  }
  EXPECT_FALSE(loop_.run_until([&] { return called; }, loop_.now() + milliseconds(50)));
}

}  // namespace
}  // namespace imex::net
