// `imex chat` with its input and output in files.
#include <filesystem>
#include <sstream>

#include "generate_fixture.hpp"

namespace imex::cli {
namespace {

using testing::HasSubstr;

/// A model that talks, and what a user typed, line by line.
class ChatTest : public GenerateTest {
 protected:
  void SetUp() override {
    GenerateTest::SetUp();
    inference::testing::TinyModel sizes;
    sizes.vocabulary = 320;
    sizes.context = 400;
    model_ = folder_ + "/talks.gguf";
    inference::testing::write_tiny_gguf(
        model_, sizes, inference::TensorType::kF32,
        "{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}[assistant]");
  }
  /// Each answer as an object.
  std::vector<Json> answers(const std::string& typed, Words words) {
    std::ofstream(folder_ + "/typed") << typed;
    words.insert(words.begin(), {"chat", "--model", model_, "--format", "jsonl", "--seed", "1"});
    EXPECT_EQ(run(std::move(words), {}, folder_ + "/typed"), 0) << err();
    std::vector<Json> answers;
    std::istringstream lines(out());
    for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
    return answers;
  }
};

TEST_F(ChatTest, AnAnswerKnowsWhatWasSaidBefore) {
  for (const char* ranks : {"1", "2"}) {
    const auto both = answers("first\nsecond", {"-T", ranks, "--max-tokens", "16"});
    ASSERT_EQ(both.size(), 2U) << ranks;
    const std::string said = both[0].at("text");
    // One message that says all of it, so that the same prompt comes out of the template.
    const auto whole =
        answers("first[assistant]" + said + "[user]second", {"-T", ranks, "--max-tokens", "16"});
    if (said.find('\n') != std::string::npos) GTEST_SKIP() << "the answer has a line end";
    ASSERT_EQ(whole.size(), 1U);
    EXPECT_EQ(both[1].at("prompt_ids"), whole[0].at("prompt_ids")) << ranks;
    EXPECT_EQ(both[1].at("ids"), whole[0].at("ids")) << ranks;
  }
}

TEST_F(ChatTest, TheOldestMessagesAreForgottenWhenTheContextIsFull) {
  std::string typed;
  for (int i = 0; i < 20; ++i) typed += "a message of some length\n";
  const auto all = answers(typed, {"--max-tokens", "8", "--system", "be brief"});
  ASSERT_EQ(all.size(), 20U);
  EXPECT_THAT(err(), HasSubstr("messages are forgotten: the context has 400 tokens"));
  for (const Json& answer : all) EXPECT_LE(answer.at("prompt_ids").size(), 392U);
}

TEST_F(ChatTest, WhatCannotBeAnsweredIsAnError) {
  std::ofstream(folder_ + "/typed") << std::string(1000, 'x') << '\n';
  EXPECT_EQ(run({"chat", "--model", model_}, {}, folder_ + "/typed"), 2);
  EXPECT_THAT(err(), HasSubstr("does not fit the context of 400"));
  std::ofstream(folder_ + "/bad") << "ab\xff\n";
  EXPECT_EQ(run({"chat", "--model", model_}, {}, folder_ + "/bad"), 2);
  EXPECT_THAT(err(), HasSubstr("invalid UTF-8 at byte 2 of the text"));
  EXPECT_EQ(run({"chat", "--model", folder_ + "/tiny.bin"}, {}, folder_ + "/typed"), 1);
  EXPECT_THAT(err(), HasSubstr("has no chat template"));
}

}  // namespace
}  // namespace imex::cli
