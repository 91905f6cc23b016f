#include "inference/generation/generator.hpp"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include <gmock/gmock.h>

#include "inference/testing/tiny_model.hpp"

namespace imex::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Ids = std::vector<std::uint32_t>;
using Clock = std::chrono::steady_clock;

/// A tiny model over processes.
class GeneratorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/imex-generator-" + std::to_string(::getpid()) + ".bin";
    sizes_.context = 20'000;
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  /// Model and image must outlive the generator.
  Generator start(std::uint32_t ranks, std::function<bool()> interrupted = {}) {
    testing::write_tiny_llama2c(path_, sizes_, damage_);
    auto model = ModelFile::open(path_);
    EXPECT_TRUE(model) << model.error().to_string();
    model_ = std::move(*model);
    GeneratorOptions options;
    options.model = &model_;
    options.image = &image_;
    options.plan = *plan_split(*split_facts_of(model_), ranks);
    options.limits.context = sizes_.context;
    options.interrupted = std::move(interrupted);
    options.idle = idle_;
    auto generator = Generator::start(std::move(options));
    EXPECT_TRUE(generator) << generator.error().to_string();
    return std::move(*generator);
  }
  static GenerateRequest request(const Ids& prompt, std::uint32_t max_tokens) {
    GenerateRequest made;
    made.prompt = prompt;
    made.max_tokens = max_tokens;
    made.sampling.seed = 3;
    return made;
  }

  std::string path_;
  testing::TinyModel sizes_;
  std::function<void(std::size_t, float&)> damage_;
  std::chrono::milliseconds idle_{5'000};
  ModelFile model_;
  PackedImage image_;
  const Ids prompt_{1, 2, 3};
};

TEST_F(GeneratorTest, WhatTheCacheHasIsNotComputedAgain) {
  for (const std::uint32_t ranks : {1U, 2U}) {
    const auto ids_of = [](Generator& generator, const GenerateRequest& asked,
                           std::uint64_t cached) {
      Ids ids;
      const auto done = generator.generate(asked, [&](const GeneratedToken& token) {
        ids.push_back(token.id);
        return true;
      });
      EXPECT_TRUE(done) << done.error().to_string();
      EXPECT_EQ(done ? done->cached_tokens : 0, cached);
      return ids;
    };
    Ids longer;
    for (std::uint32_t i = 0; i < 40; ++i) longer.push_back(1 + i % 7);
    Ids wanted;
    {
      Generator fresh = start(ranks);
      wanted = ids_of(fresh, request(longer, 12), 0);
    }

    Generator reusing = start(ranks);
    // Leaves 18 of the same tokens, and others after them.
    Ids before(longer.begin(), longer.begin() + 18);
    before.insert(before.end(), {9, 9, 9});
    GenerateRequest asked = request(before, 30);
    asked.reuses_cache = true;
    ids_of(reusing, asked, 0);
    asked = request(longer, 12);
    asked.reuses_cache = true;
    EXPECT_EQ(ids_of(reusing, asked, 18), wanted);
    // The last token of a prompt is always run.
    EXPECT_EQ(ids_of(reusing, asked, longer.size() - 1), wanted);
  }
}

TEST_F(GeneratorTest, TokensComeInOrderAndTheRanksReport) {
  Generator generator = start(2);
  for (int round = 0; round < 3; ++round) {
    Ids ids;
    const auto done = generator.generate(request(prompt_, 20), [&](const GeneratedToken& token) {
      ids.push_back(token.id);
      return true;
    });
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(done->reason, FinishReason::kLength);
    EXPECT_EQ(ids.size(), 20U);
    EXPECT_EQ(done->tokens, 20U);
    const auto reports = generator.reports();
    ASSERT_EQ(reports.size(), 2U);
    for (const RankReport& report : reports) {
      EXPECT_EQ(report.times.steps, 20U);
      EXPECT_EQ(report.times.exchanges.count(), 20U * 2 * sizes_.layers);
    }
  }
}

TEST_F(GeneratorTest, AStopTokenEndsTheText) {
  Generator generator = start(1);
  Ids ids;
  const auto collect = [&](const GeneratedToken& token) {
    ids.push_back(token.id);
    return true;
  };
  ASSERT_TRUE(generator.generate(request(prompt_, 10), collect));
  const Ids stops{ids[4]};
  ids.clear();
  GenerateRequest stopping = request(prompt_, 10);
  stopping.stop_ids = stops;
  const auto done = generator.generate(stopping, collect);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->reason, FinishReason::kStop);
  EXPECT_EQ(ids.back(), stops[0]);
}

TEST_F(GeneratorTest, TheReceiverMayEndTheText) {
  Generator generator = start(2);
  int tokens = 0;
  const auto done = generator.generate(request(prompt_, 15'000),
                                       [&](const GeneratedToken&) { return ++tokens < 5; });
  ASSERT_TRUE(done);
  EXPECT_EQ(tokens, 5);
  EXPECT_EQ(done->tokens, 5U);
  EXPECT_TRUE(generator.generate(request(prompt_, 3), [](const GeneratedToken&) { return true; }));
}

TEST_F(GeneratorTest, ARankThatIsKilledEndsItWithinASecondAndIsNamed) {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    Generator generator = start(3);
    std::uint64_t tokens = 0;
    Clock::time_point killed;
    const auto done = generator.generate(request(prompt_, 15'000), [&](const GeneratedToken&) {
      if (++tokens == 10) {
        killed = Clock::now();
        ::kill(generator.pids()[victim], SIGKILL);
      }
      return true;
    });
    ASSERT_FALSE(done);
    EXPECT_LT(Clock::now() - killed, 1s);
    EXPECT_EQ(done.error().code, Errc::kPeerLost);
    EXPECT_EQ(done.error().rank, victim) << done.error().to_string();
    EXPECT_THAT(done.error().message, HasSubstr("rank " + std::to_string(victim)));
    EXPECT_GE(tokens, 10U);
  }
}

TEST_F(GeneratorTest, AnInterruptionEndsItAndLeavesNoProcess) {
  std::vector<std::int32_t> pids;
  {
    bool stop = false;
    Generator generator = start(2, [&] { return stop; });
    pids = generator.pids();
    const auto begin = Clock::now();
    const auto done = generator.generate(request(prompt_, 15'000), [&](const GeneratedToken&) {
      stop = true;
      return true;
    });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kAborted);
    EXPECT_LT(Clock::now() - begin, 1s);
  }
  for (const std::int32_t pid : pids) EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(GeneratorTest, WhatCannotBeDoneIsRefusedAndTheRanksGoOn) {
  Generator generator = start(2);
  const auto never = [](const GeneratedToken&) { return true; };
  const auto refused = [&](const GenerateRequest& wrong) {
    const auto done = generator.generate(wrong, never);
    EXPECT_FALSE(done);
    return done ? std::string() : done.error().message;
  };
  EXPECT_THAT(refused(request({}, 1)), HasSubstr("prompt is empty"));
  EXPECT_THAT(refused(request(prompt_, 0)), HasSubstr("no token"));
  EXPECT_THAT(refused(request(prompt_, 20'000)), HasSubstr("do not fit the context of 20000"));
  EXPECT_THAT(refused(request(Ids{61}, 1)), HasSubstr("token 61 of a vocabulary of 61"));
  GenerateRequest hot = request(prompt_, 1);
  hot.sampling.temperature = -1;
  EXPECT_THAT(refused(hot), HasSubstr("temperature"));
  EXPECT_TRUE(generator.generate(request(prompt_, 2), never));
}

TEST_F(GeneratorTest, ScoresAreLogProbabilities) {
  Generator generator = start(2);
  const auto scores = generator.score(Ids{1, 5, 9, 2});
  ASSERT_TRUE(scores);
  ASSERT_EQ(scores->size(), 3U);
  for (const double score : *scores) EXPECT_LT(score, 0);
  // All tokens that may follow share a probability of one.
  double sum = 0;
  for (std::uint32_t token = 0; token < sizes_.vocabulary; ++token) {
    sum += std::exp(generator.score(Ids{1, 5, token})->back());
  }
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST_F(GeneratorTest, AWeightThatIsNoNumberEndsItWithLayerAndRank) {
  const std::size_t bad = testing::tiny_down_weight(sizes_, 2, 0, 0);
  damage_ = [bad](std::size_t number, float& value) {
    if (number == bad) value = std::nanf("");
  };
  Generator generator = start(2);
  const auto done =
      generator.generate(request(prompt_, 5), [](const GeneratedToken&) { return true; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kDataLoss);
  EXPECT_THAT(done.error().message, HasSubstr("layer 2, feed-forward on rank 0"));
}

TEST_F(GeneratorTest, AnIdleGeneratorAnswersLater) {
  idle_ = 250ms;
  Generator generator = start(2);
  // Nothing happens meanwhile but time: longer than a rank bears the silence of another.
  std::this_thread::sleep_for(8 * idle_);
  EXPECT_TRUE(generator.generate(request(prompt_, 2), [](const GeneratedToken&) { return true; }));
  EXPECT_EQ(generator.reports()[1].times.steps, 2U);
}

TEST_F(GeneratorTest, ARankThatHangsIsGivenUpAndNamed) {
  idle_ = 100ms;
  Generator generator = start(2);
  std::uint64_t tokens = 0;
  const auto done = generator.generate(request(prompt_, 15'000), [&](const GeneratedToken&) {
    if (++tokens == 10) ::kill(generator.pids()[1], SIGSTOP);
    return true;
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kDeadlineExceeded) << done.error().to_string();
  EXPECT_EQ(done.error().rank, 1U);
}

}  // namespace
}  // namespace imex::inference
