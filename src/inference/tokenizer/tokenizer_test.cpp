#include "inference/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/data.hpp"

namespace imex::inference {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<std::uint32_t>;

Tokenizer small(const std::string& name) {
  auto tokenizer = read_tokenizer_json(imex::inference::testing::read_text(
      imex::inference::testing::test_data("tokenizers/" + name + ".json")));
  EXPECT_TRUE(tokenizer) << tokenizer.error().to_string();
  return *tokenizer;
}

/// SentencePiece with the pieces that the tests name: 0 unknown, 1 begin, 2 end, bytes from 3.
GgufVocabulary sentencepiece(std::vector<std::pair<std::string_view, float>> pieces,
                             std::vector<std::string>& storage) {
  GgufVocabulary in;
  in.model = "llama";
  storage = {"<unk>", "<s>", "</s>"};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[7];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    storage.emplace_back(text);
  }
  for (const auto& [text, score] : pieces) storage.emplace_back(text);
  in.tokens.assign(storage.begin(), storage.end());
  in.scores.assign(259, 0);
  in.types.assign(259, 6);
  in.types[0] = 2;
  in.types[1] = in.types[2] = 3;
  for (const auto& [text, score] : pieces) {
    in.scores.push_back(score);
    in.types.push_back(1);
  }
  in.begin = 1;
  in.end = 2;
  in.unknown = 0;
  return in;
}

TEST(TokenizerTest, SpecialTokensInTextAreOrdinaryUnlessTheCallerTrustsIt) {
  const Tokenizer tokenizer = small("smollm");
  const auto special = tokenizer.find_added("<|end|>");
  ASSERT_TRUE(special);
  EXPECT_TRUE(tokenizer.is_special(*special));
  const auto plain = tokenizer.encode("a<|end|>");
  ASSERT_TRUE(plain);
  EXPECT_THAT(*plain, ::testing::Not(::testing::Contains(*special)));
  EXPECT_EQ(*tokenizer.decode(*plain), "a<|end|>");
  const auto trusted = tokenizer.encode("a<|end|>", {.add_special = true, .parse_special = true});
  EXPECT_EQ(trusted->back(), *special);
  EXPECT_EQ(*tokenizer.decode(*trusted), "a");
  EXPECT_EQ(*tokenizer.decode(*trusted, false), "a<|end|>");
}

TEST(TokenizerTest, InvalidUtf8IsRefusedWithItsPlace) {
  const Tokenizer tokenizer = small("gpt2");
  const auto ids = tokenizer.encode("ab\xff");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Errc::kInvalidArgument);
  EXPECT_THAT(ids.error().message, HasSubstr("byte 2"));
}

TEST(TokenizerTest, AnIdBeyondTheVocabularyIsRefused) {
  const Tokenizer tokenizer = small("gpt2");
  EXPECT_EQ(tokenizer.decode(Ids{tokenizer.size()}).error().code, Errc::kInvalidArgument);
}

TEST(DetokenizerTest, GivesOnlyWholeCharacters) {
  const Tokenizer tokenizer = small("smollm");
  const std::string text = "x 🙂 語 é";
  Ids ids;
  for (const char byte : text) {  // one token per byte
    const auto one = tokenizer.encode(std::string_view(&byte, 1));
    for (std::uint32_t id = 0; !one && id < tokenizer.size(); ++id) {
      if (tokenizer.bytes_of(id) == std::string_view(&byte, 1)) ids.push_back(id);
    }
    if (one) ids.insert(ids.end(), one->begin(), one->end());
  }
  Detokenizer stream(tokenizer);
  std::string together;
  for (const std::uint32_t id : ids) {
    const auto part = stream.append(id);
    ASSERT_TRUE(part);
    EXPECT_NO_THROW(static_cast<void>(json(*part).dump()));  // which refuses parts of characters
    together += *part;
  }
  EXPECT_EQ(together + stream.finish(), text);
}

TEST(DetokenizerTest, AnIncompleteCharacterAtTheEndIsOneReplacement) {
  std::vector<std::string> storage;
  const auto tokenizer = make_gguf_tokenizer(sentencepiece({}, storage));
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(*stream.append(3 + 0xf0), "");
  EXPECT_EQ(*stream.append(3 + 0x9f), "");
  EXPECT_EQ(stream.finish(), "\ufffd");
  EXPECT_EQ(stream.finish(), "");
}

TEST(SentencePieceTest, TheHighestScoreMergesFirstAndTheLeftmostOfEquals) {
  std::vector<std::string> storage;
  const auto in = sentencepiece(
      {{"\u2581", -9}, {"a", -9}, {"b", -9}, {"ab", -1}, {"ba", -2}, {"aa", -1}}, storage);
  const auto tokenizer = make_gguf_tokenizer(in);
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  constexpr std::uint32_t kMark = 259, kA = 260, kAb = 262, kAa = 264;
  EXPECT_THAT(*tokenizer->encode("aba"), ElementsAre(1, kMark, kAb, kA));
  EXPECT_THAT(*tokenizer->encode("aaa"), ElementsAre(1, kMark, kAa, kA));
  EXPECT_THAT(*tokenizer->encode("", {.add_special = false}), IsEmpty());
}

TEST(SentencePieceTest, UnknownCharactersBecomeTheirBytes) {
  std::vector<std::string> storage;
  const auto tokenizer = make_gguf_tokenizer(sentencepiece({{"\u2581", -1}}, storage));
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT(*tokenizer->encode("é"), ElementsAre(1, 259, 3 + 0xc3, 3 + 0xa9));
  EXPECT_EQ(*tokenizer->decode(*tokenizer->encode("é ü")), "é ü");
}

TEST(SentencePieceTest, AnUnusedPieceIsTakenApartAgain) {
  std::vector<std::string> storage;
  auto in = sentencepiece({{"\u2581", -9}, {"a", -9}, {"b", -9}, {"ab", -1}}, storage);
  in.types[262] = 5;
  const auto tokenizer = make_gguf_tokenizer(in);
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT(*tokenizer->encode("ab"), ElementsAre(1, 259, 260, 261));
}

TEST(GgufTokenizerTest, WhatIsNotKnownIsRefusedByName) {
  GgufVocabulary in;
  in.model = "bert";
  in.tokens = {"a"};
  EXPECT_THAT(make_gguf_tokenizer(in).error().message, HasSubstr("'bert'"));
  in.model = "gpt2";
  in.pre = "chameleon";
  const Error error = make_gguf_tokenizer(in).error();
  EXPECT_THAT(error.message, HasSubstr("'chameleon'"));
  EXPECT_THAT(error.hint, HasSubstr("smollm"));
  in.pre = "gpt-2";
  in.merges = {"a b"};
  EXPECT_THAT(make_gguf_tokenizer(in).error().message, HasSubstr("merge 0"));
  in.merges = {"ab"};
  EXPECT_THAT(make_gguf_tokenizer(in).error().message, HasSubstr("no merge"));
  in.merges.clear();
  in.end = 1;
  EXPECT_THAT(make_gguf_tokenizer(in).error().message, HasSubstr("special token 1 of 1"));
  in.end.reset();
  in.tokens = {"\xff"};
  EXPECT_THAT(make_gguf_tokenizer(in).error().message, HasSubstr("not UTF-8"));
}

TEST(TokenizerJsonTest, WhatIsNotKnownIsRefusedByName) {
  const json base = {
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}}};
  const auto with = [&](const char* key, const json& value) {
    json changed = base;
    changed[key] = value;
    return changed.dump();
  };
  ASSERT_TRUE(read_tokenizer_json(base.dump()));
  const std::pair<std::string, const char*> cases[] = {
      {with("normalizer", {{"type", "BertNormalizer"}}), "unknown normalizer 'BertNormalizer'"},
      {with("pre_tokenizer", {{"type", "Whitespace"}}), "unknown pre-tokenizer 'Whitespace'"},
      {with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "x+"}}}}),
       "unknown pattern 'x+'"},
      {with("decoder", {{"type", "WordPiece"}}), "unknown decoder 'WordPiece'"},
      {with("post_processor", {{"type", "BertProcessing"}}), "unknown post-processor"},
      {with("model", {{"type", "WordPiece"}}), "model 'WordPiece'"},
      {with("model", {{"vocab", {{"a", 4'000'000}}}}), "ids up to 4000000"},
      {with("model", {{"vocab", {{"a", -1}}}}), "'$.model.vocab' is not a whole number"},
      {"{", "tokenizer.json: "},
      {std::string(1000, '['), "tokenizer.json: "},
  };
  for (const auto& [text, message] : cases) {
    const auto tokenizer = read_tokenizer_json(text);
    ASSERT_FALSE(tokenizer) << text;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
  }
}

TEST(Llama2cTokenizerTest, LengthsAndCountsAreChecked) {
  const std::string zeros(4000, '\0');
  EXPECT_FALSE(read_llama2c_tokenizer(std::as_bytes(std::span(zeros)), 258));
  EXPECT_FALSE(read_llama2c_tokenizer(std::as_bytes(std::span(zeros)), UINT32_MAX));
  const auto left_over = read_llama2c_tokenizer(std::as_bytes(std::span(zeros)), 300);
  ASSERT_FALSE(left_over);
  EXPECT_THAT(left_over.error().message, HasSubstr("bytes follow"));
}

// A quadratic merge takes minutes here and runs into the test's time-out.
TEST(TokenizerTest, ATextThatIsOnePieceTakesNLogN) {
  const Tokenizer tokenizer = small("fallback");
  std::string text;
  while (text.size() < 300'000) text += "the the aaa";
  const auto ids = tokenizer.encode(text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(*tokenizer.decode(*ids), text);
}

}  // namespace
}  // namespace imex::inference
