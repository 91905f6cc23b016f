#include <fstream>

#include <gmock/gmock.h>

#include "commands.hpp"
#include "inference/testing/data.hpp"
#include "os/file.hpp"
#include "tree.hpp"

namespace imex::cli {
namespace {

using ::testing::HasSubstr;

struct Shown {
  int status;
  std::string out, err;
};
Shown show(std::vector<std::string> words) {
  words.insert(words.begin(), {"imex", "model", "show"});
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  CommandTree tree;
  const int status = tree.run(static_cast<int>(arguments.size()), arguments.data());
  return {status, ::testing::internal::GetCapturedStdout(),
          ::testing::internal::GetCapturedStderr()};
}

const std::string kModel = inference::testing::test_data("gguf/qwen3.gguf");

TEST(ModelShowTest, JsonHasTheNumbersOfTheFile) {
  const Shown shown = show({kModel, "--format", "json"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  const Json json = Json::parse(shown.out);
  EXPECT_EQ(json.at("architecture"), "qwen3");
  EXPECT_EQ(json.at("layers"), 1);
  EXPECT_EQ(json.at("kv_heads"), 2);
  EXPECT_EQ(json.at("tokenizer").at("tokens"), 7);
  EXPECT_EQ(json.at("chat_template"), false);
  EXPECT_EQ(json.at("stop_tokens"), Json::array({2}));
  std::uint64_t bytes = 0;
  for (const Json& weight : json.at("weights")) bytes += weight.at("bytes").get<std::uint64_t>();
  EXPECT_EQ(json.at("weight_bytes"), bytes);
  EXPECT_EQ(json.at("parameters"), bytes / 4);  // all F32
}

TEST(ModelShowTest, TheTableNamesEachWeight) {
  const Shown shown = show({kModel});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("architecture"));
  EXPECT_THAT(shown.out, HasSubstr("query norm"));
  EXPECT_THAT(shown.out, HasSubstr("[96, 32]"));
}

TEST(ModelShowTest, WhatIsNoModelIsAnErrorThatSaysWhy) {
  const Shown unknown = show({inference::testing::test_data("gguf/unknown.gguf")});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("unknown architecture 'rwkv7'"));
  EXPECT_THAT(unknown.err, HasSubstr("known are llama, mistral, qwen2, qwen3, smollm3"));
  EXPECT_THAT(show({"/none.gguf"}).err, HasSubstr("'/none.gguf'"));
  EXPECT_EQ(show({}).status, 2);
}

TEST(ModelShowTest, AnEncryptedModelNeedsItsKey) {
  IMEX_NEEDS_SHARED_MODEL("tensors/encrypted-key.tensors");
  const std::string folder = *os::make_temporary_directory("model-show");
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::ofstream(folder + "/" + to, std::ios::binary)
        << inference::testing::read_text(inference::testing::shared_model(from));
  };
  copy("tensors/encrypted-key.tensors", "model.tensors");
  copy("tinystories-656k/config.json", "config.json");
  std::ofstream(folder + "/key")
      << "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
  std::ofstream(folder + "/bad") << "0001\n";
  const std::string file = folder + "/model.tensors";
  EXPECT_THAT(show({file}).err, HasSubstr("the file is encrypted"));
  EXPECT_THAT(show({file, "--key-file", folder + "/bad"}).err, HasSubstr("64 hexadecimal digits"));
  // Its key opens it; that it holds no whole model is the next finding.
  EXPECT_THAT(show({file, "--key-file", folder + "/key"}).err, HasSubstr("tensor '"));
  ASSERT_TRUE(os::remove_tree(folder));
}

}  // namespace
}  // namespace imex::cli
