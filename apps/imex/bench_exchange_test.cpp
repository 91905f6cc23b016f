#include <gmock/gmock.h>

#include "bench/operation.hpp"
#include "tree.hpp"

namespace imex::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Outcome {
  int status;
  std::string out, err;
};
Outcome bench(std::vector<std::string> words) {
  std::vector<const char*> arguments{"imex", "bench"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CommandTree tree;
  const int status = tree.run(static_cast<int>(arguments.size()), arguments.data());
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

/// A run as short as one can be.
Outcome tiny(const std::string& operation, const std::vector<std::string>& more) {
  std::vector<std::string> words{operation, "--iterations", "3", "--seconds", "0.01"};
  words.insert(words.end(), more.begin(), more.end());
  return bench(words);
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(BenchExchangeTest, EveryOperationPrintsTheKeysOfTheContract) {
  for (const bench::OperationFacts& facts : bench::operations()) {
    SCOPED_TRACE(std::string(facts.name));
    const bool data = facts.extent != bench::Extent::kNothing;
    auto more = std::vector<std::string>{"--format", "jsonl", "--quiet"};
    if (data) more.insert(more.end(), {"--sizes", "4KiB"});
    const Outcome outcome = tiny(std::string(facts.name), more);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json row = Json::parse(outcome.out);
    EXPECT_THAT(keys_of(row),
                ElementsAre("operation", "ranks", "backend", "algorithm", "dtype", "buffers",
                            "bytes", "median_us", "mad_us", "min_us", "max_us", "p99_us", "n",
                            "algbw_gb_s", "busbw_gb_s", "limit_us", "share_of_limit", "checked",
                            "pages", "core_distance", "cpu", "commit"));
    EXPECT_EQ(row["operation"], facts.name);
    EXPECT_EQ(row["bytes"], data ? 4096 : 0);
    EXPECT_EQ(row["n"], 3);
    EXPECT_EQ(row["checked"], true);
    EXPECT_NEAR(row["share_of_limit"].get<double>() * row["median_us"].get<double>(),
                row["limit_us"].get<double>(), 1e-9);
    EXPECT_NEAR(row["busbw_gb_s"].get<double>(),
                row["algbw_gb_s"].get<double>() * bench::bus_factor(facts.operation, 2), 1e-9);
  }
}

TEST(BenchExchangeTest, JsonIsOneDocumentAndExplainAddsOneKey) {
  const Outcome outcome = tiny("all-reduce", {"--sizes", "8,64", "--format", "json", "--explain",
                                              "--op", "max", "--dtype", "e5m2", "--out-of-place"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json document = Json::parse(outcome.out);
  ASSERT_EQ(document["results"].size(), 2U);
  const Json& explained = document["results"][1]["explain"];
  EXPECT_EQ(explained["op"], "max");
  EXPECT_EQ(explained["in_place"], false);
  EXPECT_EQ(explained["wrong"], 0);
  EXPECT_EQ(explained["round_trip_ns"].size(), 2U);
  EXPECT_EQ(document["results"][1].size(), 23U);
}

TEST(BenchExchangeTest, TheTableHasTheColumnsOfNcclTests) {
  const Outcome outcome = tiny("reduce", {"--sizes", "8", "--explain"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* column : {"SIZE", "COUNT", "TYPE", "REDOP", "ROOT", "TIME_US", "ALGBW", "BUSBW",
                             "WRONG", "P99_US", "OF_LIMIT"}) {
    EXPECT_THAT(outcome.out, HasSubstr(column));
  }
  EXPECT_THAT(outcome.out, HasSubstr("8 B: floor"));
  EXPECT_THAT(outcome.err, HasSubstr("1/1 8 B")) << "progress, no terminal";
}

TEST(BenchExchangeTest, DefaultSizesFitTheOperation) {
  const Outcome outcome =
      tiny("all-gather", {"--ranks", "3", "--dtype", "f64", "--format", "jsonl", "--quiet"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out.substr(0, outcome.out.find('\n')))["bytes"], 24);
}

struct Wrong {
  std::vector<std::string> words;
  std::string option, accepted;
};

TEST(BenchExchangeTest, WrongUseNamesTheOptionAndWhatItTakes) {
  const std::vector<Wrong> cases{{{"all-reduce", "--dtype", "f33"}, "--dtype", "f16"},
                                 {{"all-reduce", "--op", "mean"}, "--op", "avg"},
                                 {{"all-reduce", "--buffers", "shared"}, "--buffers", "registered"},
                                 {{"all-reduce", "--algorithm", "tree"}, "--algorithm", "mailbox"},
                                 {{"all-reduce", "--pages", "1G"}, "--pages", "huge"},
                                 {{"all-reduce", "--backend", "rocm"}, "--backend", "cuda"},
                                 {{"all-reduce", "--ranks", "73"}, "--ranks", "72"},
                                 {{"all-reduce", "--iterations", "0"}, "--iterations", "1000000"},
                                 {{"all-reduce", "--seconds", "0"}, "--seconds", "3600"},
                                 {{"all-reduce", "--sizes", "8,many"}, "--sizes", "4KiB"},
                                 {{"all-reduce", "--sizes", "6"}, "--sizes 6", "multiples of 4"},
                                 {{"all-gather", "--sizes", "12"}, "--sizes 12", "multiples of 8"},
                                 {{"all-to-all", "--in-place"}, "--in-place", "--out-of-place"},
                                 {{"broadcast", "--out-of-place"}, "--out-of-place", "--in-place"}};
  for (const Wrong& wrong : cases) {
    const Outcome outcome = bench(wrong.words);
    EXPECT_EQ(outcome.status, 2) << wrong.words[1];
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(wrong.option), HasSubstr(wrong.accepted)));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(BenchExchangeTest, ABackendThatIsNotThereIsRefusedWithTheReason) {
  const Outcome outcome = bench({"all-reduce", "--backend", "cuda", "--format", "json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(Json::parse(outcome.out)["error"]["code"], "unsupported");
  EXPECT_THAT(outcome.err, HasSubstr("host memory only"));
}

TEST(BenchExchangeTest, HelpOfEachOperationHasAnExample) {
  for (const bench::OperationFacts& facts : bench::operations()) {
    const Outcome outcome = bench({std::string(facts.name), "--help"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("imex bench " + std::string(facts.name)));
  }
}

}  // namespace
}  // namespace imex::cli
