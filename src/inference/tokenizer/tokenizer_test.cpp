#include "inference/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/data.hpp"
#include "piece_trie.hpp"

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

json added(std::uint32_t id, const char* text, bool special = true) {
  return {{"id", id}, {"content", text}, {"special", special}};
}

/// Ids from 0: pieces with their scores. The first one is the unknown token.
json unigram(const std::vector<std::pair<std::string, double>>& pieces) {
  return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pieces}}}};
}

Tokenizer read(const json& file) {
  auto tokenizer = read_tokenizer_json(file.dump());
  EXPECT_TRUE(tokenizer) << tokenizer.error().to_string();
  return *tokenizer;
}

// Hugging Face's own library finds "</s>" in the model where the added tokens let it pass: text of
// a user would end the turn.
TEST(UnigramTest, TextCannotSpellSpecialTokensOrBytes) {
  json file = unigram({{"<unk>", 0}, {"</s>", 0}, {"<", -1}, {"/", -1}, {"s", -1}, {">", -1}});
  file["added_tokens"] = {added(0, "<unk>"), added(1, "</s>")};
  const Tokenizer tokenizer = read(file);
  EXPECT_THAT(*tokenizer.encode("</s>"), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*tokenizer.encode("</s>", {.parse_special = true}), ElementsAre(1));
  EXPECT_THAT(*tokenizer.encode("<unk>s"), ElementsAre(2, 0, 5, 4));

  std::vector<std::pair<std::string, double>> pieces{{"<unk>", 0}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[7];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    pieces.emplace_back(text, -1);
  }
  file = unigram(pieces);
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(*read(file).encode("<0x0A>"),
              ElementsAre(1 + '<', 1 + '0', 1 + 'x', 1 + '0', 1 + 'A', 1 + '>'));
}

TEST(UnigramTest, ScoresAreComparedAsDoubles) {
  // As floats the two ways to cut "ab" are equal, and the longer token, which is seen first, wins.
  const Tokenizer tokenizer =
      read(unigram({{"<unk>", 0}, {"ab", -2.000000001}, {"a", -1}, {"b", -1}}));
  EXPECT_THAT(*tokenizer.encode("ab"), ElementsAre(2, 3));
}

TEST(UnigramTest, AnUnknownCharacterCostsTenMoreThanTheWorstPiece) {
  // 5 - 10 + 18 for the unknown "x" and "ab", 5 + 5 for "xa" and "b".
  const Tokenizer tokenizer = read(unigram({{"<unk>", 5}, {"xa", 5}, {"b", 5}, {"ab", 18}}));
  EXPECT_THAT(*tokenizer.encode("xab"), ElementsAre(0, 3));
}

// With a look-up for each stretch of a text, this takes minutes and runs into the test's time-out.
TEST(UnigramTest, ALongPieceCostsItsLengthTimesTheLongestToken) {
  std::vector<std::pair<std::string, double>> pieces{{"<unk>", 0}};
  for (std::size_t bytes = 1; bytes <= 1024; ++bytes)
    pieces.emplace_back(std::string(bytes, 'a'), -1);
  const auto ids = read(unigram(pieces)).encode(std::string(100'000, 'a'));
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->size(), 98U);  // 97 of 1024 and one for the rest
  pieces.emplace_back(std::string(1025, 'a'), -1);
  EXPECT_THAT(read_tokenizer_json(unigram(pieces).dump()).error().message,
              HasSubstr("token 1025 of 1025 bytes"));
}

TEST(PieceTrieTest, FindsEveryTokenThatBeginsThere) {
  const PieceTrie trie({{"b", 1}, {"abc", 2}, {"a", 3}, {"ab", 4}, {"a", 5}, {"", 6}, {"\xff", 7}});
  const auto at = [&](std::string_view text) {
    std::vector<std::pair<std::size_t, std::uint32_t>> found;
    trie.for_each_prefix(
        text, [&](std::size_t bytes, std::uint32_t id) { found.emplace_back(bytes, id); });
    return found;
  };
  using Found = std::pair<std::size_t, std::uint32_t>;
  EXPECT_THAT(at("abcd"), ElementsAre(Found{1, 5}, Found{2, 4}, Found{3, 2}));
  EXPECT_THAT(at("bab"), ElementsAre(Found{1, 1}));
  EXPECT_THAT(at("\xff"), ElementsAre(Found{1, 7}));
  EXPECT_THAT(at("x"), IsEmpty());
  EXPECT_THAT(at(""), IsEmpty());
  PieceTrie().for_each_prefix("a", [](std::size_t, std::uint32_t) { FAIL(); });
}

TEST(PairBpeTest, TextCannotSpellSpecialTokens) {
  json file = {{"model",
                {{"type", "BPE"},
                 {"vocab", {{"<s>", 0}, {"<", 1}, {"s", 2}, {">", 3}, {"<s", 4}}},
                 {"merges", {"< s", "<s >"}}}},
               {"added_tokens", {added(0, "<s>")}}};
  EXPECT_THAT(*read(file).encode("<s>"), ElementsAre(4, 3));  // the second merge is left out
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(*read(file).encode("<s>"), ElementsAre(4, 3));
  EXPECT_THAT(*read(file).encode("<s"), ElementsAre(4));
  EXPECT_THAT(*read(file).encode("<s>", {.parse_special = true}), ElementsAre(0));
}

TEST(TokenizerJsonTest, StepsThatMakeTextManyTimesAsLongAreRefused) {
  json file = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}}};
  const auto replace = [](const std::string& from, const std::string& to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const auto sequence = [](const std::vector<json>& steps) {
    return json{{"type", "Sequence"}, {"normalizers", steps}, {"decoders", steps}};
  };
  const auto refusal = [](const json& changed) {
    const auto tokenizer = read_tokenizer_json(changed.dump());
    return tokenizer ? "was read" : tokenizer.error().message;
  };
  const auto normalized_by = [&](const std::vector<json>& steps) {
    json changed = file;
    changed["normalizer"] = sequence(steps);
    return refusal(changed);
  };
  const json four = replace("a", "aaaa");
  EXPECT_EQ(normalized_by({four, four}), "was read");
  EXPECT_THAT(normalized_by({four, four, four}), HasSubstr("normalizers make text up to 64 times"));
  EXPECT_THAT(normalized_by({replace("a", std::string(17, 'a'))}), HasSubstr("up to 17 times"));
  EXPECT_THAT(normalized_by({{{"type", "Prepend"}, {"prepend", std::string(16, 'a')}}}),
              HasSubstr("up to 17 times"));  // in front of each section between added tokens
  EXPECT_THAT(normalized_by(std::vector<json>(33, replace("a", "a"))), HasSubstr("33 steps"));
  EXPECT_THAT(normalized_by({replace(std::string(1025, 'a'), "a")}), HasSubstr("up to 1024 bytes"));
  json decoded = file;
  decoded["decoder"] = sequence({four, four, four});
  EXPECT_THAT(refusal(decoded), HasSubstr("decoders make text up to 64 times"));
}

TEST(TokenizerJsonTest, WhatIsSaidTwiceIsRefused) {
  const auto refusal = [](const std::string& text) {
    const auto tokenizer = read_tokenizer_json(text);
    return tokenizer ? "was read" : tokenizer.error().message;
  };
  const auto with = [](const std::string& vocabulary, const std::string& added_tokens) {
    return R"({"model":{"type":"BPE","vocab":{)" + vocabulary +
           R"(},"merges":[]},"added_tokens":[)" + added_tokens + "]}";
  };
  EXPECT_EQ(refusal(with(R"("a":0,"b":1)", R"({"id":1,"content":"b"})")), "was read");
  EXPECT_THAT(refusal(with(R"("a":0,"a":1)", "")), HasSubstr("key 'a' appears twice"));
  EXPECT_THAT(refusal(with(R"("a":0,"b":0)", "")), HasSubstr("id 0 is both 'a' and 'b'"));
  EXPECT_THAT(refusal(with(R"("a":0)", R"({"id":0,"content":"b"})")),
              HasSubstr("id 0 is both 'b' and 'a'"));
  EXPECT_THAT(refusal(with(R"("a":0)", R"({"id":1,"content":"b"},{"id":2,"content":"b"})")),
              HasSubstr("added token 'b' is both 1 and 2"));
  EXPECT_THAT(refusal(with(R"("a":0)", R"({"id":1,"content":"a"})")),
              HasSubstr("added token 'a' is both 0 and 1"));
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
