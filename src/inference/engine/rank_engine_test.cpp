#include "inference/engine/rank_engine.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/allocation.hpp"
#include "inference/testing/data.hpp"
#include "inference/testing/system_calls.hpp"
#include "inference/testing/tiny_model.hpp"
#include "inference/weights/packed_image.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;
using ::testing::TempDir;
using Ids = std::vector<std::uint32_t>;

struct Opened {
  ModelFile model;
  PackedImage image;
};

Opened open(const std::string& path) {
  auto model = ModelFile::open(path);
  EXPECT_TRUE(model) << model.error().to_string();
  auto image = PackedImage::open(*model, path, {});
  EXPECT_TRUE(image) << image.error().to_string();
  return {std::move(*model), std::move(*image)};
}

/// A file of this process alone: tests run side by side.
std::string own_path() { return TempDir() + "/imex-engine-" + std::to_string(::getpid()) + ".bin"; }

/// Opened, it needs its name no more.
Opened open_own() {
  Opened opened = open(own_path());
  std::filesystem::remove(own_path());
  return opened;
}

Opened open_tiny(const testing::TinyModel& model = {}) {
  const std::string path = own_path();
  testing::write_tiny_llama2c(path, model);
  return open_own();
}

/// Runs a model over ranks that are threads. `lead` runs on rank 0.
void run(
    const Opened& opened, std::uint32_t ranks, bool invariant,
    const std::function<void(RankEngine&)>& lead, EngineLimits limits = {},
    const std::function<void()>& on_report = [] {}) {
  const auto facts = split_facts_of(opened.model);
  ASSERT_TRUE(facts);
  const auto plan = plan_split(*facts, ranks, invariant);
  ASSERT_TRUE(plan) << plan.error().to_string();
  if (limits.context == 0) limits.context = std::min(512U, opened.model.parameters().context);
  auto place = Rendezvous::create();
  ASSERT_TRUE(place);
  const auto body = [&](std::uint32_t rank) {
    std::optional<Communicator> communicator;
    if (ranks > 1) {
      auto met = Communicator::create(place->id(), rank, ranks);
      ASSERT_TRUE(met) << met.error().to_string();
      communicator.emplace(std::move(*met));
    }
    auto engine = RankEngine::create({opened.model, opened.image, *plan},
                                     communicator ? &*communicator : nullptr, limits);
    ASSERT_TRUE(engine) << engine.error().to_string();
    if (rank != 0) {
      static_cast<void>(engine->follow(on_report));
      return;
    }
    lead(*engine);
    if (ranks > 1) static_cast<void>(engine->stop());
  };
  std::vector<std::jthread> others;
  for (std::uint32_t rank = 1; rank < ranks; ++rank) others.emplace_back(body, rank);
  body(0);
}

SamplingOptions greedy() {
  SamplingOptions options;
  options.temperature = 0;
  return options;
}

Ids generate(RankEngine& engine, const Ids& prompt, std::size_t count,
             const SamplingOptions& options) {
  EXPECT_TRUE(engine.begin(0, options));
  auto drawn = engine.append(0, prompt, true);
  Ids ids;
  while (drawn && ids.size() < count) {
    ids.push_back((*drawn)->token);
    if (ids.size() < count) drawn = engine.append(0, std::span(&ids.back(), 1), true);
  }
  EXPECT_TRUE(drawn) << drawn.error().to_string();
  return ids;
}

nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(testing::read_text(testing::shared_model("golden/" + name)));
}

TEST(GoldenTest, GreedyIdsAndScoresAreThoseOfTheReferenceForAllRanks) {
  IMEX_NEEDS_SHARED_MODEL("tinystories-656k/model.safetensors");
  const Opened opened = open(testing::shared_model("tinystories-656k"));
  const auto expected = golden("tinystories-656k.greedy.json");
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 8U}) {
    run(opened, ranks, false, [&](RankEngine& engine) {
      for (const auto& one : expected["cases"]) {
        const auto ids = one["greedy_ids"].get<Ids>();
        EXPECT_EQ(generate(engine, one["prompt_ids"].get<Ids>(), ids.size(), greedy()), ids)
            << ranks << " ranks, " << one["prompt"];
      }
    });
  }
}

TEST(GoldenTest, LogitsAreWithinATenThousandth) {
  IMEX_NEEDS_SHARED_MODEL("tinystories-656k/model.safetensors");
  const Opened opened = open(testing::shared_model("tinystories-656k"));
  const auto expected = golden("tinystories-656k.greedy.json")["last_position_logits"];
  const auto prompt = expected["prompt_ids"].get<Ids>();
  const auto logits = expected["logits"].get<std::vector<double>>();
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    run(opened, ranks, false, [&](RankEngine& engine) {
      // Each token in turn after the prompt: its score is its logit but for the common sum.
      for (std::uint32_t token = 0; token < logits.size(); token += 97) {
        Ids ids = prompt;
        ids.push_back(token);
        ASSERT_TRUE(engine.begin(0, greedy()));
        const auto scores = engine.score(0, ids);
        ASSERT_TRUE(scores);
        EXPECT_NEAR(scores->back(), logits[token] - std::log(sum), 1e-4) << token;
      }
    });
  }
}

TEST(GoldenTest, Stories260kTellsItsStory) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/stories260K.bin");
  const Opened opened = open(testing::shared_model("stories260k/stories260K.bin"));
  const auto expected = golden("stories260k.greedy.json");
  const auto ids = expected["cases"][0]["greedy_ids"].get<Ids>();
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    run(opened, ranks, false, [&](RankEngine& engine) {
      EXPECT_EQ(generate(engine, {1}, ids.size(), greedy()), ids) << ranks;
    });
  }
}

TEST(RankEngineTest, InvariantBitsDoNotDependOnTheRanks) {
  const Opened opened = open_tiny();
  Ids text;
  for (std::uint32_t i = 0; i < 70; ++i) text.push_back(i * 7 % 61);
  std::vector<double> first;
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U}) {
    run(opened, ranks, true, [&](RankEngine& engine) {
      ASSERT_TRUE(engine.begin(0, greedy()));
      const auto scores = engine.score(0, text);
      ASSERT_TRUE(scores);
      if (ranks == 1) first = *scores;
      EXPECT_EQ(*scores, first) << ranks << " ranks";
    });
  }
}

TEST(RankEngineTest, QuantisedModelsAreTheSameOverRanksAndInAnyPieces) {
  testing::TinyModel sizes;
  // Two cuts of whole blocks of 256, also between heads.
  sizes.hidden = 512;
  sizes.feed_forward = 512;
  sizes.layers = 2;
  sizes.vocabulary = 80;
  for (const TensorType type :
       {TensorType::kF16, TensorType::kQ40, TensorType::kQ41, TensorType::kQ50, TensorType::kQ51,
        TensorType::kQ80, TensorType::kQ4K, TensorType::kQ5K, TensorType::kQ6K}) {
    const std::string path = own_path();
    testing::write_tiny_gguf(path, sizes, type);
    const Opened opened = open_own();
    Ids text;
    for (std::uint32_t i = 0; i < 40; ++i) text.push_back(i * 11 % 80);
    std::vector<double> first;
    for (const std::uint32_t ranks : {1U, 2U}) {
      for (const std::uint32_t rows : {64U, 7U, 1U}) {
        EngineLimits limits;
        limits.rows = rows;
        limits.context = 64;
        run(
            opened, ranks, true,
            [&](RankEngine& engine) {
              ASSERT_TRUE(engine.begin(0, greedy()));
              const auto scores = engine.score(0, text);
              ASSERT_TRUE(scores) << scores.error().to_string();
              if (first.empty()) first = *scores;
              EXPECT_EQ(*scores, first)
                  << layout_of(type).name << ", " << ranks << " ranks, " << rows << " rows";
            },
            limits);
      }
    }
  }
}

TEST(RankEngineTest, DrawsAreReproducibleAndTheSameOverRanks) {
  const Opened opened = open_tiny();
  SamplingOptions options;
  options.seed = 7;
  options.top_k = 20;
  options.top_p = 0.9F;
  options.repetition_penalty = 1.1F;
  options.logprobs = 3;
  Ids first, other;
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    run(opened, ranks, true, [&](RankEngine& engine) {
      const Ids ids = generate(engine, {3, 4, 5}, 60, options);
      if (first.empty()) first = ids;
      EXPECT_EQ(ids, first);
      EXPECT_EQ(generate(engine, {3, 4, 5}, 60, options), ids);
      SamplingOptions another = options;
      another.seed = 8;
      EXPECT_NE(generate(engine, {3, 4, 5}, 60, another), ids);
      another = options;
      another.top_k = 0;  // all logits are gathered then
      EXPECT_EQ(generate(engine, {3, 4, 5}, 60, another).size(), 60U);
    });
  }
}

TEST(RankEngineTest, ANumberThatIsNoneIsNamedByLayerAndRank) {
  const testing::TinyModel sizes;
  const std::string path = own_path();
  const std::size_t bad = testing::tiny_down_weight(sizes, 1, 5, sizes.feed_forward - 1);
  testing::write_tiny_llama2c(path, sizes, [&](std::size_t number, float& value) {
    if (number == bad) value = std::nanf("");
  });
  const Opened opened = open_own();
  for (const std::uint32_t ranks : {1U, 2U, 3U}) {
    run(opened, ranks, false, [&](RankEngine& engine) {
      ASSERT_TRUE(engine.begin(0, greedy()));
      const auto drawn = engine.append(0, Ids{1, 2, 3}, true);
      ASSERT_FALSE(drawn);
      EXPECT_EQ(drawn.error().code, Errc::kDataLoss);
      EXPECT_THAT(drawn.error().message,
                  HasSubstr("layer 1, feed-forward on rank " + std::to_string(ranks - 1)));
    });
  }
}

TEST(RankEngineTest, WhatDoesNotFitIsRefusedAndTheEngineGoesOn) {
  const Opened opened = open_tiny();
  EngineLimits limits;
  limits.context = 20;
  run(
      opened, 2, false,
      [](RankEngine& engine) {
        ASSERT_TRUE(engine.begin(0, greedy()));
        const auto long_one = engine.append(0, Ids(21, 1), true);
        ASSERT_FALSE(long_one);
        EXPECT_EQ(long_one.error().code, Errc::kResourceExhausted);
        const auto unknown = engine.append(0, Ids{61}, true);
        ASSERT_FALSE(unknown);
        EXPECT_EQ(unknown.error().code, Errc::kInvalidArgument);
        EXPECT_EQ(generate(engine, Ids(15, 1), 5, greedy()).size(), 5U);
      },
      limits);
}

TEST(RankEngineTest, AStepTakesNoMemoryOnceASequenceIsUnderWay) {
  const Opened opened = open_tiny();
  SamplingOptions drawing;
  drawing.top_k = 20;
  drawing.repetition_penalty = 1.1F;
  for (const std::uint32_t ranks : {1U, 2U}) {
    std::size_t of_rank_0 = 1;
    run(opened, ranks, false, [&](RankEngine& engine) {
      std::uint32_t token = generate(engine, {1, 2, 3}, 8, drawing).back();
      bool good = true;
      const testing::AllocationCount allocations;
      for (int step = 0; step < 40 && good; ++step) {  // also across borders of blocks
        const auto drawn = engine.append(0, std::span(&token, 1), true);
        good = drawn.has_value();
        if (good) token = (*drawn)->token;
      }
      of_rank_0 = allocations.count();
      EXPECT_TRUE(good);
    });
    EXPECT_EQ(of_rank_0, 0U) << ranks << " ranks";
  }
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // which make calls of their own
/// Exit status of a child that takes 40 steps in which no rank may make a system call but to wait.
int steps_without_system_calls(const Opened& opened, std::uint32_t ranks) {
  constexpr int kNotPermitted = 77;
  const std::int32_t child = ::fork();
  if (child == 0) {
    const auto confine = [] {
      if (!testing::allow_only_waiting()) ::_exit(kNotPermitted);
    };
    const auto lead = [&](RankEngine& engine) {
      std::uint32_t token = generate(engine, {1, 2, 3}, 8, greedy()).back();
      if (!engine.report()) ::_exit(1);
      confine();
      for (int step = 0; step < 40; ++step) {
        const auto drawn = engine.append(0, std::span(&token, 1), true);
        if (!drawn) ::_exit(1);
        token = (*drawn)->token;
      }
      ::_exit(0);
    };
    run(opened, ranks, false, lead, {}, confine);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(RankEngineTest, AStepMakesNoSystemCallButToWait) {
  const Opened opened = open_tiny();
  for (const std::uint32_t ranks : {1U, 2U}) {
    const int status = steps_without_system_calls(opened, ranks);
    if (status == 77) GTEST_SKIP() << "this kernel permits no filters of system calls";
    EXPECT_EQ(status, 0) << ranks << " ranks; " << 128 + SIGSYS << " is a system call";
  }
}
#endif

TEST(RankEngineTest, TimesCountStepsAndExchanges) {
  const Opened opened = open_tiny();
  run(opened, 2, false, [](RankEngine& engine) {
    generate(engine, {1, 2, 3}, 5, greedy());
    const RankTimes times = engine.times();
    EXPECT_EQ(times.steps, 5U);
    EXPECT_EQ(times.rows, 7U);
    EXPECT_EQ(times.exchanges.count(), 5U * 2 * 3);
    EXPECT_GT(times.exchange, 0U);
    ASSERT_TRUE(engine.measure_reading());
    EXPECT_GT(engine.times().read, 0U);
    engine.reset_times();
    EXPECT_EQ(engine.times().steps, 0U);
  });
}

}  // namespace
}  // namespace imex::inference
