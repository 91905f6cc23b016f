#include <fstream>

#include <gmock/gmock.h>

#include "captured_run.hpp"
#include "commands.hpp"
#include "inference/model/weight_role.hpp"
#include "inference/testing/data.hpp"
#include "inference/testing/tensors_writer.hpp"
#include "os/file.hpp"

namespace imex::cli {
namespace {

using ::testing::HasSubstr;

CapturedRun run(const std::string& command, std::vector<std::string> words) {
  words.insert(words.begin(), {"model", command});
  return run_captured(std::move(words));
}

CapturedRun show(const std::vector<std::string>& words) { return run("show", words); }

const std::string kModel = inference::testing::test_data("gguf/qwen3.gguf");

TEST(ModelShowTest, JsonHasTheNumbersOfTheFile) {
  const CapturedRun shown = show({kModel, "--format", "json"});
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
  const CapturedRun shown = show({kModel});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("architecture"));
  EXPECT_THAT(shown.out, HasSubstr("query norm"));
  EXPECT_THAT(shown.out, HasSubstr("[96, 32]"));
}

TEST(ModelShowTest, EachRankOfTheSplitIsShownBeforeAnythingIsLoaded) {
  const CapturedRun shown = show({kModel, "-T", "2", "--context", "32", "--format", "json"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  const Json split = Json::parse(shown.out).at("split");
  EXPECT_EQ(split.at("context"), 32);
  ASSERT_EQ(split.at("ranks").size(), 2U);
  for (const char* phase : {"query_heads", "feed_forward", "vocabulary"}) {
    const Json &first = split.at("ranks")[0].at(phase), &second = split.at("ranks")[1].at(phase);
    EXPECT_EQ(first[0], 0) << phase;
    EXPECT_EQ(first[1], second[0]) << phase;
  }
  for (const Json& rank : split.at("ranks")) {
    EXPECT_EQ(rank.at("total_bytes").get<std::uint64_t>(),
              rank.at("weight_bytes").get<std::uint64_t>() +
                  rank.at("cache_bytes").get<std::uint64_t>() +
                  rank.at("buffer_bytes").get<std::uint64_t>() +
                  rank.at("window_bytes").get<std::uint64_t>());
  }
  EXPECT_THAT(show({kModel}).out, HasSubstr("--tensor-parallel may be 1 to "));
  const CapturedRun impossible = show({kModel, "-T", "99"});
  EXPECT_EQ(impossible.status, 2);
  EXPECT_THAT(impossible.err, HasSubstr("possible are all numbers from 1 to"));
}

TEST(ModelShowTest, WhatIsNoModelIsAnErrorThatSaysWhy) {
  const CapturedRun unknown = show({inference::testing::test_data("gguf/unknown.gguf")});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("unknown architecture 'rwkv7'"));
  EXPECT_THAT(unknown.err, HasSubstr("known are llama, mistral, qwen2, qwen3, smollm3"));
  EXPECT_THAT(show({"/none.gguf"}).err, HasSubstr("'/none.gguf'"));
  EXPECT_EQ(show({}).status, 2);
}

/// A llama of one layer with weights of zeros, encrypted with the key 00 01 ... 1f or not.
class TensorsShowTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = *os::make_temporary_directory("model-show"); }
  void TearDown() override { ASSERT_TRUE(os::remove_tree(folder_)); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  std::string write_model(bool encrypted, const std::string& extra = "") const {
    using inference::testing::WrittenTensor;
    const std::string config =
        R"({"architectures":["LlamaForCausalLM"],"num_attention_heads":1,"num_hidden_layers":1,)"
        R"("intermediate_size":2,"hidden_size":2,"vocab_size":3})";
    write("config.json", config);
    const auto parameters = inference::parse_config_json(config);
    std::vector<WrittenTensor> tensors;
    for (const auto& place : inference::weights_of(*parameters)) {
      WrittenTensor one{.name = weight_name(inference::NamingScheme::kHuggingFace, place)};
      std::size_t bytes = 4;
      for (const std::uint64_t size : weight_shape(*parameters, place.role)) {
        one.shape.push_back(static_cast<std::uint32_t>(size));
        bytes *= size;
      }
      one.data.assign(bytes, '\0');
      tensors.push_back(std::move(one));
    }
    if (!extra.empty()) tensors.push_back({.name = extra, .shape = {1}, .data = "abcd"});
    inference::testing::TensorsForm form;
    if (encrypted) {
      auto& key = form.key.emplace();
      for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<unsigned char>(i);
    }
    return write("model.tensors", inference::testing::write_tensors(tensors, form));
  }
  std::string folder_;
};

TEST_F(TensorsShowTest, AnEncryptedModelNeedsItsKey) {
  const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
  const std::string key = write("key", digits + "\n");
  const std::string wrong = write("wrong", "01" + digits.substr(2));
  const std::string file = write_model(true);
  EXPECT_THAT(show({file}).err, HasSubstr("the file is encrypted"));
  EXPECT_THAT(show({file, "--key-file", write("bad", "0001\n")}).err,
              HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(show({file, "--key-file", wrong}).err, HasSubstr("the key is wrong"));
  const CapturedRun shown = show({file, "--key-file", key, "--format", "json"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(Json::parse(shown.out).at("format"), "Tensorizer 4, encrypted");

  const CapturedRun plain = show({write_model(false), "--key-file", key});
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.err, HasSubstr("is not encrypted, but a key or passphrase is given"));
}

TEST_F(TensorsShowTest, VerifyNeedsHashes) {
  EXPECT_THAT(show({write_model(false), "--verify"}).err, HasSubstr("has no hash to compare with"));
  EXPECT_THAT(show({kModel, "--verify"}).err, HasSubstr("GGUF 3 has no hashes"));
  IMEX_NEEDS_SHARED_MODEL("tensors/tinystories-656k.bf16.tensors");
  const auto shared = [](const char* name) {
    return inference::testing::read_text(inference::testing::shared_model(name));
  };
  write("config.json", shared("tinystories-656k/config.json"));
  const std::string file = write("real.tensors", shared("tensors/tinystories-656k.bf16.tensors"));
  const CapturedRun shown = show({file, "--verify", "--format", "json"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(Json::parse(shown.out).at("verified"), true);
}

TEST_F(TensorsShowTest, NamesOfAFileCannotSteerTheTerminal) {
  const CapturedRun shown = show({write_model(false, "x\x1b[31m\nimex: fine")});
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.err, HasSubstr("tensor 'x\\x1b[31m\\nimex: fine' is none of"));
}

TEST_F(TensorsShowTest, AModelIsConvertedOnceAndThenOnlyByForce) {
  const std::string target = folder_ + "/new.safetensors";
  const std::string source = write_model(false);
  const auto convert = [&](std::vector<std::string> more) {
    std::vector<std::string> words{source, target, "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return run("convert", words);
  };
  const CapturedRun done = convert({"--dtype", "bf16"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out).at("weights"), 12);
  EXPECT_THAT(done.err, HasSubstr("1/12 model.embed_tokens.weight"));
  const Json shown = Json::parse(show({target, "--format", "json"}).out);
  EXPECT_EQ(shown.at("format"), "safetensors");
  EXPECT_EQ(shown.at("weights").at(0).at("type"), "BF16");
  EXPECT_THAT(convert({}).err, HasSubstr("replace it with --force"));
  EXPECT_EQ(convert({"--force"}).status, 0);
  EXPECT_EQ(convert({"--dtype", "int8"}).status, 2);
}

}  // namespace
}  // namespace imex::cli
