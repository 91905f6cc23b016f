// A tokenizer that is written as tokenizer.json and read again is the same tokenizer.
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/data.hpp"
#include "inference/tokenizer/tokenizer.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;

Tokenizer read_small(const std::string& name) {
  auto tokenizer =
      read_tokenizer_json(testing::read_text(testing::test_data("tokenizers/" + name + ".json")));
  EXPECT_TRUE(tokenizer) << tokenizer.error().to_string();
  return *tokenizer;
}

/// Texts of words, digits, signs, spaces, line ends, other scripts and spelled special tokens.
std::vector<std::string> odd_texts() {
  const std::vector<std::string> parts{
      "a",  "the", " the", "The",     "'s",  "'LL",     " ", "  ",    "\n", "\r\n",
      "\t", "1",   "23",   "4567",    "é",   "e\u0301", "ß", "日本",  "🙂", "\u2581",
      "!",  "...", "/",    "<|end|>", "<s>", "<0x41>",  "_", "\u00a0"};
  std::mt19937 random(7);
  std::vector<std::string> texts{"", " ", "a", "\u2581"};
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (auto left = random() % 12; left > 0; --left) text += parts[random() % parts.size()];
    texts.push_back(std::move(text));
  }
  return texts;
}

void expect_same(const Tokenizer& one, const Tokenizer& other) {
  ASSERT_EQ(one.size(), other.size());
  for (const std::string& text : odd_texts()) {
    for (const bool special : {false, true}) {
      const EncodeOptions options{.add_special = true, .parse_special = special};
      const auto ids = one.encode(text, options);
      ASSERT_EQ(*ids, *other.encode(text, options)) << '"' << text << '"';
      EXPECT_EQ(*one.decode(*ids), *other.decode(*ids)) << '"' << text << '"';
    }
  }
}

void expect_kept(const Tokenizer& tokenizer) {
  const auto text = write_tokenizer_json(tokenizer);
  ASSERT_TRUE(text) << text.error().to_string();
  const auto again = read_tokenizer_json(*text);
  ASSERT_TRUE(again) << again.error().to_string();
  expect_same(tokenizer, *again);
}

class ByteLevelJsonTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ByteLevelJsonTest, SurvivesBeingWritten) { expect_kept(read_small(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Each, ByteLevelJsonTest,
                         ::testing::Values("gpt2", "smollm", "llama3", "qwen2", "tekken"));

/// SentencePiece: 0 unknown, 1 begin, 2 end, bytes from 3, then letters and pieces of them whose
/// scores fall.
struct Pieces {
  std::vector<std::string> texts{"<unk>", "<s>", "</s>"};
  GgufVocabulary in;

  Pieces() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      char text[7];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      texts.emplace_back(text);
    }
    in.scores.assign(texts.size(), 0);
    in.types.assign(texts.size(), 6);
    in.types[0] = 2;
    in.types[1] = in.types[2] = 3;
    for (const char* const piece :
         {"\u2581", "a", "t", "h", "e", "1", "th", "\u2581t", "he", "the", "\u2581the", "\u2581th",
          "\u2581\u2581", "ea", "hea", "at", "\u2581a", "11"}) {
      texts.emplace_back(piece);
      in.scores.push_back(-static_cast<float>(texts.size()));
      in.types.push_back(1);
    }
    in.model = "llama";
    in.tokens.assign(texts.begin(), texts.end());
    in.begin = 1;
    in.end = 2;
    in.unknown = 0;
  }
};

TEST(ScoreJsonTest, ScoresBecomeMergesOfTheSameEffect) {
  const Pieces pieces;
  for (const bool prefix : {true, false}) {
    GgufVocabulary in = pieces.in;
    in.add_space_prefix = prefix;
    const auto tokenizer = make_gguf_tokenizer(in);
    ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
    expect_kept(*tokenizer);
  }
}

TEST(ScoreJsonTest, TwoTokensOfOneTextAreRefused) {
  Pieces pieces;
  pieces.in.tokens.emplace_back("the");
  pieces.in.scores.push_back(-1000);
  pieces.in.types.push_back(1);
  const auto text = write_tokenizer_json(*make_gguf_tokenizer(pieces.in));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::kUnsupported);
  EXPECT_THAT(text.error().message, HasSubstr("'the'"));
}

TEST(ScoreJsonTest, Llama2cIsKept) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/tok512.bin");
  const std::string bytes = testing::read_text(testing::shared_model("stories260k/tok512.bin"));
  const auto tokenizer = read_llama2c_tokenizer(std::as_bytes(std::span(bytes)), 512);
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  expect_kept(*tokenizer);
}

TEST(UnigramJsonTest, IsRefused) {
  const auto text = write_tokenizer_json(read_small("unigram"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace imex::inference
