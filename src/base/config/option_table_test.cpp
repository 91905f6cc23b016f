#include "config/option_table.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::config {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Mode : std::uint8_t { kFast, kSafe };
struct Tls {
  std::string key;
};
struct Sample {
  std::string name = "node";
  bool enabled = true;
  std::uint16_t port = 50'000;
  int level = 4;
  std::uint64_t cache_bytes = 64U << 20U;
  std::uint64_t quota_bytes = UINT64_MAX;
  Nanos lease = seconds(30);
  Nanos grace = Nanos(-1);
  Mode mode = Mode::kSafe;
  std::uint32_t permissions = 0600;
  Tls tls;
};

Result<void> set_octal(Sample& sample, std::string_view text) {
  if (text != "0600" && text != "0660") return fail(Errc::kInvalidArgument, "0600 or 0660");
  sample.permissions = text == "0600" ? 0600U : 0660U;
  return {};
}

OptionTable<Sample> sample_table() {
  OptionTable<Sample> table(Sample{});
  table.string("NAME", &Sample::name, "Name of the node.")
      .boolean("ENABLED", &Sample::enabled, "Whether it runs.")
      .integer("PORT", &Sample::port, {1, 65'535}, "TCP port.")
      .integer("LEVEL", &Sample::level, {0, 4}, "Lines | kept.")
      .size("CACHE", &Sample::cache_bytes, {4096, 1U << 30U}, "Cache.")
      .size("QUOTA", &Sample::quota_bytes, {}, "Most bytes.")
      .duration("LEASE", &Sample::lease, {milliseconds(1), seconds(3600), {}}, "Lease.")
      .duration("GRACE", &Sample::grace, {Nanos(0), Nanos::max(), "never"}, "Grace time.")
      .choice("MODE", &Sample::mode, {{"fast", Mode::kFast}, {"safe", Mode::kSafe}}, "How.")
      .custom(
          "PERMISSIONS", "0600 or 0660", set_octal,
          [](const Sample& sample) { return sample.permissions == 0600 ? "0600" : "0660"; },
          "Mode.")
      .string(
          "KEY", [](auto& sample) -> auto& { return sample.tls.key; }, "Key.")
      .secret()
      .without_effect("GSS_TIMEOUT", "-1", "Kerberos is not built in", "Time-out.");
  return table;
}

OptionTable<Sample>::Loaded load(std::string_view text) {
  const auto table = sample_table();
  auto loaded = table.defaults();
  table.apply_text(loaded, text, "f.cfg");
  return loaded;
}

std::vector<std::string> error_lines(const Findings& findings) {
  std::vector<std::string> lines;
  for (const Problem& problem : findings.errors()) lines.push_back(problem.to_string());
  return lines;
}

TEST(OptionTableTest, EveryTypeIsRead) {
  const auto loaded = load(
      "NAME=a "
      "b\nENABLED=0\nPORT=1\nLEVEL=0\nCACHE=1MiB\nQUOTA=2G\nLEASE=250ms\nGRACE=7\nMODE=fast\n"
      "PERMISSIONS=0660\nKEY=k\n");
  ASSERT_TRUE(loaded.findings.check());
  EXPECT_TRUE(loaded.findings.warnings().empty());
  EXPECT_EQ(loaded.config.name, "a b");
  EXPECT_FALSE(loaded.config.enabled);
  EXPECT_EQ(loaded.config.port, 1);
  EXPECT_EQ(loaded.config.level, 0);
  EXPECT_EQ(loaded.config.cache_bytes, 1U << 20U);
  EXPECT_EQ(loaded.config.quota_bytes, 2ULL << 30U);
  EXPECT_EQ(loaded.config.lease, Nanos(milliseconds(250)));
  EXPECT_EQ(loaded.config.grace, Nanos(seconds(7)));
  EXPECT_EQ(loaded.config.mode, Mode::kFast);
  EXPECT_EQ(loaded.config.permissions, 0660U);
  EXPECT_EQ(loaded.config.tls.key, "k");
}

TEST(OptionTableTest, AllProblemsAreReportedAtOnceWithTheirLines) {
  const auto loaded =
      load("PORT=0\n\nLEVEL=five\nnonsense\nCACHE=1\nLEASE=2h\nMODE=FAST\nENABLED=2\n");
  EXPECT_THAT(error_lines(loaded.findings),
              ElementsAre("f.cfg:4: 'nonsense' is no KEY=VALUE",
                          "f.cfg:1: PORT: '0' is no whole number from 1 to 65535",
                          "f.cfg:3: LEVEL: 'five' is no whole number from 0 to 4",
                          "f.cfg:5: CACHE: '1' is not size from 4KiB to 1GiB",
                          "f.cfg:6: LEASE: '2h' is not duration from 1ms to 3600s",
                          "f.cfg:7: MODE: 'FAST' is none of: fast, safe",
                          "f.cfg:8: ENABLED: '2' is neither 0 nor 1"));
  const auto checked = loaded.findings.check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Errc::kInvalidArgument);
  EXPECT_THAT(checked.error().message, HasSubstr("f.cfg:8"));
  EXPECT_EQ(loaded.config.port, 50'000) << "a bad value leaves the old one";
  EXPECT_EQ(loaded.sources[2], "default");
}

TEST(OptionTableTest, EmptyValueIsTheDefaultExceptForText) {
  const auto table = sample_table();
  auto loaded = table.defaults();
  table.apply_text(loaded, "PORT=7\nMODE=fast\nLEASE=1s\n", "a");
  table.apply_text(loaded, "NAME=\nPORT=\nENABLED=\nCACHE=\nLEASE=\nGRACE=\nMODE=\n", "b");
  ASSERT_TRUE(loaded.findings.check());
  EXPECT_EQ(loaded.config.name, "");
  EXPECT_EQ(loaded.config.port, 50'000);
  EXPECT_EQ(loaded.config.mode, Mode::kSafe);
  EXPECT_EQ(loaded.config.lease, Nanos(seconds(30)));
  EXPECT_EQ(loaded.config.grace, Nanos(-1));
}

TEST(OptionTableTest, UnknownKeysAreWarningsInTextAndErrorsInOverrides) {
  const auto table = sample_table();
  auto loaded = table.defaults();
  table.apply_text(loaded, "PRT=1\n", "f.cfg");
  EXPECT_THAT(loaded.findings.warning_lines(), ElementsAre("f.cfg:1: PRT: unknown key, ignored"));
  EXPECT_TRUE(loaded.findings.check());
  table.apply(loaded, "PRT", "1", "option --set");
  EXPECT_THAT(error_lines(loaded.findings), ElementsAre("option --set: PRT: unknown key"));
}

TEST(OptionTableTest, LaterSourcesWinAndAreNamed) {
  const auto table = sample_table();
  auto loaded = table.defaults();
  table.apply_text(loaded, "PORT=1\nNAME=x\n", "f.cfg");
  const std::map<std::string, std::string> variables = {
      {"IMEX_NAME", "from-env"}, {"IMEX_PORT", "tcp://10.0.0.1:80"}, {"NAME", "no prefix"}};
  table.apply_environment(loaded, "IMEX_",
                          [&](const std::string& name) -> std::optional<std::string> {
                            const auto found = variables.find(name);
                            if (found == variables.end()) return std::nullopt;
                            return found->second;
                          });
  table.apply(loaded, "LEVEL", "2", "option --level");
  ASSERT_TRUE(loaded.findings.check());
  const auto rows = table.rows(loaded);
  EXPECT_EQ(rows[0].value, "from-env");
  EXPECT_EQ(rows[0].source, "environment IMEX_NAME");
  EXPECT_EQ(rows[1].source, "default");
  EXPECT_EQ(rows[2].value, "1") << "what Kubernetes injects does not count";
  EXPECT_EQ(rows[2].source, "f.cfg:1");
  EXPECT_EQ(rows[3].source, "option --level");
}

TEST(OptionTableTest, KeysWithoutEffectWarnOnlyWhenTheyAskForSomething) {
  EXPECT_TRUE(load("GSS_TIMEOUT=-1\n").findings.warnings().empty());
  EXPECT_TRUE(load("GSS_TIMEOUT=\n").findings.warnings().empty());
  const auto loaded = load("GSS_TIMEOUT=30\n");
  EXPECT_THAT(loaded.findings.warning_lines(),
              ElementsAre("f.cfg:1: GSS_TIMEOUT: has no effect: Kerberos is not built in"));
  EXPECT_EQ(sample_table().rows(loaded).back().value, "30");
}

TEST(OptionTableTest, SecretsAppearInNoListingAndNoMessage) {
  const auto table = sample_table();
  const auto rows = table.rows(load("KEY=hunter2\n"));
  EXPECT_EQ(rows[10].value, "***");
  EXPECT_EQ(table.rows(table.defaults())[10].value, "") << "an empty secret shows as empty";

  OptionTable<Sample> strict(Sample{});
  strict.integer("PIN", &Sample::level, {0, 9999}, "Pin.").secret();
  auto loaded = strict.defaults();
  strict.apply(loaded, "PIN", "hunter2", "option --pin");
  EXPECT_THAT(error_lines(loaded.findings),
              ElementsAre("option --pin: PIN: value does not fit: 0 to 9999"));
}

TEST(OptionTableTest, WhatRowsShowIsReadBackToTheSameConfiguration) {
  const auto table = sample_table();
  const auto first = load("ENABLED=0\nCACHE=12345\nQUOTA=3M\nLEASE=1500us\nGRACE=0\nMODE=fast\n");
  auto second = table.defaults();
  for (const OptionRow& row : table.rows(first)) table.apply(second, row.key, row.value, "rows");
  ASSERT_TRUE(second.findings.check());
  const auto first_rows = table.rows(first);
  const auto second_rows = table.rows(second);
  for (std::size_t i = 0; i < first_rows.size(); ++i)
    EXPECT_EQ(first_rows[i].value, second_rows[i].value);
  EXPECT_EQ(second.config.cache_bytes, 12'345U);
  EXPECT_EQ(second.config.lease, Nanos(1'500'000));
}

TEST(OptionTableTest, MarkdownPageHasEveryKeyWithItsDefault) {
  const std::string page = sample_table().markdown("Keys", "All of them.");
  EXPECT_THAT(page, HasSubstr("# Keys\n\nAll of them.\n\n| Key | Values | Default | Meaning |\n"));
  EXPECT_THAT(page, HasSubstr("| `PORT` | 1 to 65535 | `50000` | TCP port. |\n"));
  EXPECT_THAT(page, HasSubstr("| `LEVEL` | 0 to 4 | `4` | Lines \\| kept. |\n"));
  EXPECT_THAT(page, HasSubstr("| `QUOTA` | size or unlimited | `unlimited` | Most bytes. |\n"));
  EXPECT_THAT(page, HasSubstr("| `GRACE` | duration, or -1: never | `-1` | Grace time. |\n"));
  EXPECT_THAT(page, HasSubstr("| `KEY` | text | empty | Key. |\n"));
}

TEST(OptionTableDeathTest, ANameIsAddedOnce) {
  EXPECT_DEATH(
      {
        OptionTable<Sample> table(Sample{});
        table.string("A", &Sample::name, "").string("A", &Sample::name, "");
      },
      "added once");
}

}  // namespace
}  // namespace imex::config
