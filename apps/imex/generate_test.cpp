// `imex generate` and `imex perplexity` as a user runs them.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "bench/daemons.hpp"
#include "generate_fixture.hpp"

namespace imex::cli {
namespace {

using namespace std::chrono_literals;
using inference::testing::shared_model;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(GenerateTest, TextGoesToStandardOutputAndThreeLinesToStandardError) {
  ASSERT_EQ(run({"generate", "--model", model_, "-T", "2", "--max-tokens", "12", "--seed", "1",
                 "--", "abc"}),
            0)
      << err();
  EXPECT_GT(out().size(), 3U);
  EXPECT_THAT(err(), AllOf(HasSubstr("over 2 ranks"), HasSubstr("tokens/s"),
                           HasSubstr("72 exchanges: p50")));
  ASSERT_EQ(run({"generate", "--quiet", "--model", model_, "--max-tokens", "3", "--", "abc"}), 0);
  EXPECT_THAT(err(), IsEmpty());
}

TEST_F(GenerateTest, JsonHasTheKeysOfTheSpecification) {
  const Json result = json({"generate", "--model", model_, "-T", "2", "--profile", "--seed", "5",
                            "--max-tokens", "8", "--", "abc"});
  for (const char* key :
       {"model", "tensor_parallel", "prompt_ids", "ids", "text", "finish_reason", "load_seconds",
        "time_to_first_token_ms", "prefill_tokens_per_second", "tokens_per_second",
        "share_of_read_limit", "memory_bytes_per_rank", "exchange_us", "imbalance_us", "ranks",
        "logical_partition_id", "seed", "profile"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_EQ(result["tensor_parallel"], 2);
  EXPECT_EQ(result["ids"].size(), 8U);
  EXPECT_EQ(result["finish_reason"], "length");
  EXPECT_EQ(result["seed"], 5);
  EXPECT_EQ(result["memory_bytes_per_rank"].size(), 2U);
}

TEST_F(GenerateTest, ASeedMakesTheTextTheSameAndRanksDoNotChangeIt) {
  const Words options{"generate", "--model", model_, "--seed",      "9",  "--max-tokens",
                      "30",       "-T",      "1",    "--invariant", "--", "hello"};
  const Json first = json(options);
  for (const char* ranks : {"1", "2", "3", "4"}) {
    Words words = options;
    *(std::ranges::find(words, "-T") + 1) = ranks;
    EXPECT_EQ(json(words)["ids"], first["ids"]) << ranks;
  }
}

TEST_F(GenerateTest, AStopTextEndsTheAnswerAndIsNotPartOfIt) {
  const Words options{"generate", "--model", model_, "--temperature", "0", "--max-tokens",
                      "40",       "--",      "abc"};
  const std::string whole = json(options)["text"];
  ASSERT_GT(whole.size(), 8U);
  // Whole characters: a tiny model writes many that are none of ASCII.
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if ((static_cast<unsigned char>(whole[at]) & 0xc0U) != 0x80U) starts.push_back(at);
  }
  ASSERT_GT(starts.size(), 8U);
  const std::string stop = whole.substr(starts[5], starts[7] - starts[5]);
  Words words = options;
  words.insert(words.begin() + 3, {"--stop", stop});
  const Json stopped = json(words);
  EXPECT_EQ(stopped["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  // Half a character is no text.
  words[4] = "\xc3";
  EXPECT_EQ(run(words), 2);
  EXPECT_THAT(err(), HasSubstr("--stop"));
}

TEST_F(GenerateTest, TheEnvironmentCountsAndUnknownVariablesAreNamed) {
  ASSERT_EQ(run({"generate", "--max-tokens", "4", "--format", "json", "--", "abc"},
                {{"NIM_MODEL_PATH", model_},
                 {"NIM_TENSOR_PARALLEL_SIZE", "3"},
                 {"IMEX_TENSOR_PARALLEL_SIZE", "2"},
                 {"NIM_TENSOR_PARALEL_SIZE", "4"}}),
            0)
      << err();
  EXPECT_EQ(Json::parse(out())["tensor_parallel"], 2);
  EXPECT_THAT(err(), HasSubstr("NIM_TENSOR_PARALEL_SIZE"));
}

TEST_F(GenerateTest, TheStartCanBeLoggedWithTheNamesThatScriptsLookFor) {
  ASSERT_EQ(run({"generate", "--model", model_, "-T", "2", "--max-tokens", "2", "--log-level",
                 "info", "--", "abc"}),
            0);
  for (const char* fact : {"world_size=2", "rank=1", "topology=", "UBER_IMEX", "CUSTOM_AR_KERNEL",
                           "allreduce_strategy=one-shot", "KV cache", "ready"}) {
    EXPECT_THAT(err(), HasSubstr(fact));
  }
}

TEST_F(GenerateTest, BadInputIsAClearErrorWithinASecond) {
  const std::string broken = folder_ + "/broken.gguf";
  std::ofstream(broken) << "GGUFnot really";
  const std::string cut = folder_ + "/cut.bin";
  std::filesystem::copy_file(model_, cut);
  std::filesystem::resize_file(cut, 5000);
  struct Case {
    Words words;
    int status;
    const char* text;
  };
  const std::vector<Case> cases{
      {{"generate", "--model", "/nowhere/model.gguf", "--", "a"}, 1, "/nowhere/model.gguf"},
      {{"generate", "--model", broken, "--", "a"}, 1, "broken.gguf"},
      {{"generate", "--model", cut, "--", "a"}, 1, "cut.bin"},
      {{"generate", "--model", model_, "-T", "5", "--", "a"}, 2, "from 1 to 4"},
      {{"generate", "--model", model_, "-T", "0", "--", "a"}, 2, "tensor-parallel"},
      {{"generate", "--model", model_, "--max-model-len", "4", "--", "abcdefgh"},
       2,
       "does not fit the context of 4"},
      {{"generate", "--model", model_, "--", "a\xff"}, 2, "UTF-8"},
      {{"generate", "--model", model_, "--temperature", "-1", "--", "a"}, 2, "temperature"},
      {{"generate", "--model", model_, "--chat", "--", "a"}, 1, "no chat template"},
      {{"generate", "--model", model_, "--prompt-file", "/nowhere"}, 1, "/nowhere"},
      {{"generate", "--model", model_, "--channel", "/nowhere/channel0", "-T", "2", "--", "a"},
       1,
       "/nowhere/channel0"},
      {{"generate", "--model", model_, "--no-such-option", "--", "a"}, 2, "--no-such-option"},
      {{"perplexity", "--model", model_, "--file", "/nowhere"}, 1, "/nowhere"},
  };
  for (const Case& one : cases) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(run(one.words), one.status) << one.text << "\n" << out() << err();
    // A loaded machine may take longer for the processes themselves.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s) << one.text;
    EXPECT_THAT(err(), HasSubstr(one.text));
  }
}

TEST_F(GenerateTest, AKilledRankEndsTheCommandWithTheTextSoFar) {
  auto child = start({"generate", "--model", model_, "-T", "3", "--max-tokens", "29000",
                      "--min-tokens", "29000", "--temperature", "1", "--", "abc"});
  await_text();
  const auto ranks = children_of(child.pid());
  ASSERT_EQ(ranks.size(), 3U);
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(ranks[1], SIGKILL), 0);
  EXPECT_EQ(child.wait(10s), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 2s);
  EXPECT_GE(out().size(), 20U);
  EXPECT_THAT(err(), HasSubstr("rank 1"));
  for (const std::int32_t pid : ranks) EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(GenerateTest, CtrlCEndsTheCommandAndLeavesNothing) {
  auto child = start({"generate", "--model", model_, "-T", "2", "--max-tokens", "29000",
                      "--min-tokens", "29000", "--temperature", "1", "--", "abc"});
  await_text();
  const auto ranks = children_of(child.pid());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(child.kill(SIGINT));
  EXPECT_EQ(child.wait(10s), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_THAT(err(), HasSubstr("interrupted"));
  for (const std::int32_t pid : ranks) EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(GenerateTest, RanksMeetThroughTwoDaemons) {
  auto daemons = bench::Daemons::prepare(IMEX_DAEMON, 2);
  ASSERT_TRUE(daemons) << daemons.error().to_string();
  const auto started = daemons->start_all();
  ASSERT_TRUE(started) << started.error().to_string();
  const Json direct = json({"generate", "--model", model_, "-T", "2", "--temperature", "0",
                            "--max-tokens", "20", "--", "abc"});
  const Json through =
      json({"generate", "--model", model_, "-T", "2", "--temperature", "0", "--max-tokens", "20",
            "--channel", daemons->channel(0) + "," + daemons->channel(1), "--", "abc"});
  EXPECT_EQ(through["ids"], direct["ids"]);
}

TEST_F(GenerateTest, PerplexityAgreesOverRanks) {
  const std::string file = folder_ + "/text";
  std::ofstream(file) << "it is a small text of small letters that says no more than it must";
  const Json one = json({"perplexity", "--model", model_, "--file", file});
  EXPECT_NEAR(one["perplexity"].get<double>(), std::exp(one["nll"].get<double>()), 1e-9);
  for (const char* ranks : {"2", "3", "4"}) {
    const Json more = json({"perplexity", "--model", model_, "-T", ranks, "--file", file});
    EXPECT_NEAR(more["nll"].get<double>(), one["nll"].get<double>(), 1e-4) << ranks;
    EXPECT_EQ(more["tokens"], one["tokens"]);
  }
}

TEST_F(GenerateTest, GoldenPromptsGiveTheGoldenText) {
  IMEX_NEEDS_SHARED_MODEL("tinystories-656k/model.safetensors");
  const auto golden = Json::parse(
      inference::testing::read_text(shared_model("golden/tinystories-656k.greedy.json")));
  for (const auto& one : golden["cases"]) {
    if (one["prompt"].is_null()) continue;  // of ids only
    for (const char* ranks : {"1", "2", "3"}) {
      const Json result =
          json({"generate", "--model", shared_model("tinystories-656k"), "-T", ranks,
                "--temperature", "0", "--max-tokens", std::to_string(one["greedy_ids"].size()),
                "--", one["prompt"].get<std::string>()});
      EXPECT_EQ(result["prompt_ids"], one["prompt_ids"]);
      EXPECT_EQ(result["ids"], one["greedy_ids"]) << ranks << " ranks: " << one["prompt"];
    }
  }
}

}  // namespace
}  // namespace imex::cli
