#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "domain/domain_view.hpp"
#include "domain_view_kit.hpp"

namespace imex::domain {
namespace {

using namespace view_kit;
using ::testing::HasSubstr;

class RenderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  // 2025-05-12 06:08:10.580 UTC
  static constexpr std::chrono::system_clock::time_point kTime{
      std::chrono::milliseconds(1'747'030'090'580)};
  RenderOptions options{.time = kTime};
};

TEST_F(RenderTest, TextHasTheBytesOfTheSpecification) {
  options.legend = false;
  EXPECT_EQ(render_text(whole(2), options),
            "5/12/2025 06:08:10.580\n"
            "Nodes:\n"
            "Node #0   - 10.0.0.11       - READY                - Version: 580.159\n"
            "Node #1   * 10.0.0.12     * - READY                - Version: 580.159\n"
            "\n"
            " Nodes From\\To  0   1\n"
            "       0        C   C\n"
            "       1        C   C\n"
            "\n"
            "Domain State: UP\n");
}

TEST_F(RenderTest, TheLegendNamesEveryCode) {
  const std::string text = render_text(whole(1), options);
  EXPECT_EQ(text.find("Connectivity Table Legend:\n"), 0U);
  for (const char* code : {"\nI ", "\nN ", "\nR ", "\nD ", "\nA ", "\n!V! ", "\n!M! ", "\nC "}) {
    EXPECT_THAT(text, HasSubstr(code));
  }
}

TEST_F(RenderTest, MismatchesUnaskedNodesAndTwoDigitIdsKeepTheColumns) {
  DomainView view = whole(11);
  view.nodes[0].report->peers[10].state = PairState::kMapMismatch;
  view.nodes[10].report.reset();
  view.local = 0;
  options.legend = false;
  const std::string text = render_text(view, options);
  EXPECT_THAT(text, HasSubstr("Node #10  - 10.0.0.21       - UNAVAILABLE          - Version: \n"));
  EXPECT_THAT(text, HasSubstr(" Nodes From\\To  0   1   2   3   4   5   6   7   8   9   10\n"));
  EXPECT_THAT(text, HasSubstr("\n       0        C   C   C   C   C   C   C   C   C   C  !M!\n"));
  EXPECT_THAT(text, HasSubstr("\n      10        I   I   I   I   I   I   I   I   I   I   I\n"));
  EXPECT_THAT(text, HasSubstr("Domain State: DEGRADED\n"));
}

TEST_F(RenderTest, LongNamesWidenTheColumnForAll) {
  DomainView view = whole(2);
  view.nodes[0].host = "compute-domain-daemon-0000";
  options.legend = false;
  const std::string text = render_text(view, options);
  EXPECT_THAT(text, HasSubstr("Node #0   - compute-domain-daemon-0000  - READY "));
  EXPECT_THAT(text, HasSubstr("Node #1   * 10.0.0.12                 * - READY "));
}

TEST_F(RenderTest, HostNamesAreAddedOnRequest) {
  EXPECT_THAT(render_text(whole(1), options), Not(HasSubstr("tray-0")));
  EXPECT_THAT(render_json(whole(1), options), HasSubstr(R"("hostName":"")"));
  options.host_names = true;
  EXPECT_THAT(render_text(whole(1), options), HasSubstr("tray-0"));
  EXPECT_THAT(render_json(whole(1), options), HasSubstr(R"("hostName":"tray-0")"));
}

TEST_F(RenderTest, JsonHasTheKeysOfTheSpecificationInTheirOrder) {
  DomainView view = whole(2);
  leave(view, 1);
  EXPECT_EQ(render_json(view, options),
            R"({"nodes":{"0":{"status":"READY","host":"10.0.0.11","connections":{)"
            R"("0":{"host":"10.0.0.11","status":"CONNECTED","changed":true},)"
            R"("1":{"host":"10.0.0.12","status":"NEVER_CONNECTED","changed":true}},)"
            R"("changed":true,"version":"580.159","hostName":""},)"
            R"("1":{"status":"UNAVAILABLE","host":"10.0.0.12","connections":{},)"
            R"("changed":true,"version":"","hostName":""}},)"
            R"("timestamp":"5/12/2025 06:08:10.580","status":"DEGRADED"})"
            "\n");
}

TEST_F(RenderTest, OnlyWhatChangedSinceTheLastPrintIsMarked) {
  const DomainView before = whole(3);
  DomainView after = before;
  after.nodes[0].report->peers[1].state = PairState::kRecovering;
  after.local.reset();
  options.previous = &before;
  options.legend = false;
  const auto json = nlohmann::json::parse(render_json(after, options));
  EXPECT_TRUE(json["nodes"]["0"]["changed"]);
  EXPECT_TRUE(json["nodes"]["0"]["connections"]["1"]["changed"]);
  EXPECT_FALSE(json["nodes"]["0"]["connections"]["2"]["changed"]);
  EXPECT_FALSE(json["nodes"]["1"]["changed"]);
  const std::string text = render_text(after, options);
  EXPECT_THAT(text, HasSubstr("Node #0   * 10.0.0.11     * -"));
  EXPECT_THAT(text, HasSubstr("Node #1   - 10.0.0.12       -"));
  EXPECT_TRUE(differs(after, before));
  EXPECT_FALSE(differs(before, before));
}

TEST_F(RenderTest, BytesThatAreNoUtf8AreReplaced) {
  DomainView view = whole(1);
  view.nodes[0].report->version = "\xff\"status\":";
  EXPECT_TRUE(nlohmann::json::accept(render_json(view, options)));
}

/// DCGM's rule (section 11.3): the last occurrence of the bytes "status":, then the next quoted
/// word.
std::string dcgm_state(const std::string& text) {
  const std::size_t key = text.rfind("\"status\":");
  if (key == std::string::npos) return "none";
  const std::size_t open = text.find('"', key + 9);
  if (open == std::string::npos) return "none";
  std::string word = text.substr(open + 1, text.find('"', open + 1) - open - 1);
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return word;
}

#ifdef __SANITIZE_THREAD__
constexpr int kDomains = 50;  // one thread: nothing to find there, ten times slower
#else
constexpr int kDomains = 500;
#endif

TEST_F(RenderTest, DcgmReadsTheRightStateOfEveryDomain) {
  std::mt19937 dice(42);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(dice() % bound); };
  std::map<std::string, int> seen;
  for (int round = 0; round < kDomains; ++round) {
    DomainView view = whole(1 + below(18));
    view.assigned_only = below(2) == 0;
    const unsigned harm = below(3);  // 0: whole, 1: a little, 2: a lot
    for (NodeView& node : view.nodes) {
      const auto hit = [&] { return harm == 2 ? below(2) == 0 : harm == 1 && below(20) == 0; };
      if (hit()) node.assigned = false;
      if (hit()) node.report->version = "\"status\":\"UP\"";
      if (hit()) node.host = "a\"status\":b";
      if (hit()) node.report->status = static_cast<DaemonStatus>(below(8));
      for (PeerReport& peer : node.report->peers) {
        if (hit()) peer.state = static_cast<PairState>(below(8));
      }
      if (hit() || below(40) == 0) node.report.reset();
    }
    const std::string text = render_json(view, options);
    const std::string state(domain_state_word(domain_state(view)));
    ++seen[state];
    ASSERT_EQ(dcgm_state(text), state) << text;
    ASSERT_EQ(nlohmann::json::parse(text)["status"], state);
    ASSERT_EQ(std::ranges::count(text, '\n'), 1);
  }
  EXPECT_EQ(seen.size(), 3U) << "not every state was tried";
}

}  // namespace
}  // namespace imex::domain
