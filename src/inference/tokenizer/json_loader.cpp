// tokenizer.json: vocabulary and model, around which json_steps.cpp puts the rest.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "assembly.hpp"
#include "base/exhaustion.hpp"
#include "byte_alphabet.hpp"
#include "inference/json/json_document.hpp"
#include "inference/tokenizer/tokenizer.hpp"
#include "json_steps.hpp"

namespace imex::inference {

namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::uint64_t kIdsMax = 1U << 24U;
// Of Unigram: trainers stop at 16 characters; each place of a text costs this many steps at most.
constexpr std::size_t kPieceBytesMax = 1024;

/// A token as the file lists it.
struct Listed {
  std::string_view text;
  std::uint32_t id = 0;
  double score = 0;
};

Result<std::uint32_t> id_of(const JsonView& json) {
  IMEX_TRY(const auto id, json.count());
  if (id >= kIdsMax) return json.wrong("the id of a token");
  return static_cast<std::uint32_t>(id);
}

/// BPE: an object of texts and ids.
Result<std::vector<Listed>> read_vocabulary(const JsonView& model) {
  IMEX_TRY(const JsonView member, model.member("vocab"));
  IMEX_TRY(const auto object, member.object());
  std::vector<Listed> listed;
  for (const auto field : object) {
    IMEX_TRY(const auto id, id_of(JsonView(field.value, member.path())));
    listed.push_back({field.key, id, 0});
  }
  return listed;
}

/// Unigram: a list of [text, score], the id is the place.
Result<std::vector<Listed>> read_scores(const JsonView& model) {
  IMEX_TRY(const JsonView member, model.member("vocab"));
  IMEX_TRY(const auto list, member.array());
  std::vector<Listed> listed;
  for (const simdjson::dom::element element : list) {
    const JsonView entry(element, member.path());
    IMEX_TRY(const auto pair, entry.array());
    if (pair.size() != 2) return entry.wrong("a list of pairs of text and score");
    IMEX_TRY(const auto text, JsonView(pair.at(0).value_unsafe(), member.path()).text());
    IMEX_TRY(const auto score, JsonView(pair.at(1).value_unsafe(), member.path()).number());
    if (text.size() > kPieceBytesMax) {
      return fail(Errc::kUnsupported,
                  fmt::format("tokenizer.json: token {} of {} bytes; Unigram's have at most {}",
                              listed.size(), text.size(), kPieceBytesMax));
    }
    listed.push_back({text, static_cast<std::uint32_t>(listed.size()), score});
  }
  return listed;
}

struct ListedAdded {
  AddedToken token;
  bool normalized = false;
};

Result<std::vector<ListedAdded>> read_added(const JsonView& root) {
  std::vector<ListedAdded> added;
  const auto member = root.find("added_tokens");
  if (!member) return added;
  IMEX_TRY(const auto list, member->array());
  for (const simdjson::dom::element element : list) {
    const JsonView json(element, member->path());
    ListedAdded one;
    IMEX_TRY(const JsonView content, json.member("content"));
    IMEX_TRY(one.token.text, content.text());
    IMEX_TRY(const JsonView id, json.member("id"));
    IMEX_TRY(one.token.id, id_of(id));
    IMEX_TRY(one.token.special, json.flag("special", false));
    IMEX_TRY(one.token.strip_left, json.flag("lstrip", false));
    IMEX_TRY(one.token.strip_right, json.flag("rstrip", false));
    IMEX_TRY(one.normalized, json.flag("normalized", false));
    IMEX_TRY(const bool single_word, json.flag("single_word", false));
    if (single_word) {
      return fail(Errc::kUnsupported,
                  fmt::format("tokenizer.json: added token '{}' is found only as "
                              "a word of its own",
                              one.token.text));
    }
    added.push_back(std::move(one));
  }
  return added;
}

/// What a token shows, after the decoder's steps.
std::string output_of(std::string_view text, const TokenDecoding& decoding) {
  if (decoding.byte_level) {
    if (auto bytes = from_byte_alphabet(text)) return *std::move(bytes);
  }
  if (decoding.byte_fallback) {
    if (const auto byte = parse_byte_token(text)) return std::string(1, static_cast<char>(*byte));
  }
  std::string shown(text);
  for (const ReplaceText& step : decoding.replacements) {
    shown = replace_all(shown, step.from, step.to);
  }
  return shown;
}

/// An id has one text and a text one id, whether the vocabulary or the list of added tokens says
/// so: where they disagree, readers do, too. Ids are below `size`.
Result<void> check_ids(const std::vector<Listed>& listed, const std::vector<ListedAdded>& added,
                       std::uint32_t size) {
  std::vector<std::optional<std::string_view>> texts(size);
  std::map<std::string_view, std::uint32_t> ids;  // of added tokens, which are few
  const auto two_texts = [](std::uint32_t id, std::string_view a, std::string_view b) {
    return fail(Errc::kDataLoss,
                fmt::format("tokenizer.json: id {} is both '{}' and '{}'", id, a, b));
  };
  const auto two_ids = [](std::string_view text, std::uint32_t a, std::uint32_t b) {
    return fail(Errc::kDataLoss,
                fmt::format("tokenizer.json: added token '{}' is both {} and {}", text, a, b));
  };
  for (const ListedAdded& one : added) {
    const AddedToken& token = one.token;
    if (texts[token.id].value_or(token.text) != token.text) {
      return two_texts(token.id, *texts[token.id], token.text);
    }
    texts[token.id] = token.text;
    const auto [same, fresh] = ids.emplace(token.text, token.id);
    if (!fresh && same->second != token.id) return two_ids(token.text, same->second, token.id);
  }
  std::vector<bool> taken(size);
  for (const Listed& token : listed) {
    if (taken[token.id] || texts[token.id].value_or(token.text) != token.text) {
      return two_texts(token.id, *texts[token.id], token.text);
    }
    texts[token.id] = token.text;
    taken[token.id] = true;
    const auto same = ids.find(token.text);
    if (same != ids.end() && same->second != token.id) {
      return two_ids(token.text, token.id, same->second);
    }
  }
  return {};
}

/// Ids without a token stay empty. Added tokens that the vocabulary has, too, become special or not
/// by what is said of them as added ones.
Result<void> fill(const std::vector<Listed>& listed, const std::vector<ListedAdded>& added,
                  bool byte_level, const TokenDecoding& decoding, TokenizerParts& parts) {
  std::uint32_t size = 0;
  for (const Listed& token : listed) size = std::max(size, token.id + 1);
  for (const ListedAdded& one : added) size = std::max(size, one.token.id + 1);
  // Ids may leave holes, but a file of a few bytes must not make a table of millions.
  if (size > 2 * (listed.size() + added.size()) + 1024) {
    return fail(Errc::kDataLoss, fmt::format("tokenizer.json: {} tokens with ids up to {}",
                                             listed.size() + added.size(), size - 1));
  }
  IMEX_CHECK_OK(check_ids(listed, added, size));
  Vocabulary& vocabulary = parts.vocabulary;
  vocabulary.resize(size);
  for (const Listed& token : listed) {
    std::string text(token.text);
    if (byte_level) text = from_byte_alphabet(token.text).value_or(std::move(text));
    vocabulary.set(token.id, std::move(text), output_of(token.text, decoding));
    vocabulary.set_score(token.id, token.score);
    vocabulary.index(token.id);
  }
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (const ListedAdded& one : added) {
    const std::string& text = one.token.text;
    if (vocabulary.text(one.token.id).empty())
      vocabulary.set(one.token.id, text, output_of(text, decoding));
    if (one.token.special) vocabulary.set_special(one.token.id);
    (one.normalized ? normalized : raw).push_back(one.token);
    if (one.normalized) normalized.back().text = normalize(parts.normalizer, text);
  }
  parts.raw_added = AddedTokens(std::move(raw));
  parts.normalized_added = AddedTokens(std::move(normalized));
  return {};
}

Result<PairTable> read_merges(const JsonView& model, bool byte_level,
                              const Vocabulary& vocabulary) {
  IMEX_TRY(const JsonView member, model.member("merges"));
  IMEX_TRY(const auto list, member.array());
  PairTable merges;
  std::uint32_t rank = 0;
  for (const simdjson::dom::element element : list) {
    std::pair<std::string_view, std::string_view> pair;
    std::string_view joined;
    if (element.get(joined) == simdjson::SUCCESS) {
      IMEX_TRY(pair, parse_merge(joined));
    } else {
      IMEX_TRY(const auto two, JsonView(element, member.path()).array());
      if (two.size() != 2) return member.wrong("a list of pairs");
      IMEX_TRY(pair.first, JsonView(two.at(0).value_unsafe(), member.path()).text());
      IMEX_TRY(pair.second, JsonView(two.at(1).value_unsafe(), member.path()).text());
    }
    const auto text = [&](std::string_view token) {
      return (byte_level ? from_byte_alphabet(token) : std::nullopt).value_or(std::string(token));
    };
    IMEX_CHECK_OK(add_merge(vocabulary, text(pair.first), text(pair.second), rank++, merges));
  }
  return merges;
}

Result<UnknownRule> read_unknown(const JsonView& model, const Vocabulary& vocabulary) {
  UnknownRule rule;
  if (const auto member = model.find("unk_token")) {
    IMEX_TRY(const auto text, member->text());
    rule.unknown = vocabulary.find(text);
    if (!rule.unknown) return member->wrong("a token of the vocabulary");
  }
  IMEX_TRY(rule.fuse, model.flag("fuse_unk", false));
  IMEX_TRY(const bool bytes, model.flag("byte_fallback", false));
  if (bytes) rule.bytes = fallback_byte_tokens(vocabulary);
  return rule;
}

Result<Model> read_bpe(const JsonView& model, bool byte_level, const Vocabulary& vocabulary) {
  for (const auto* const affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    IMEX_TRY(const auto text, model.text_or(affix, ""));
    if (!text.empty()) {
      return fail(Errc::kUnsupported, fmt::format("tokenizer.json: '{}' is '{}'", affix, text));
    }
  }
  PairBpe bpe;
  IMEX_TRY(bpe.merges, read_merges(model, byte_level, vocabulary));
  IMEX_TRY(bpe.whole_pieces_first, model.flag("ignore_merges", false));
  IMEX_TRY(bpe.unknown, read_unknown(model, vocabulary));
  if (byte_level) bpe.byte_tokens = single_byte_tokens(vocabulary);
  return Model(std::move(bpe));
}

Result<Model> read_unigram(const JsonView& model, const std::vector<Listed>& listed,
                           const Vocabulary& vocabulary) {
  Unigram unigram;
  if (const auto member = model.find("unk_id")) {
    IMEX_TRY(const auto id, id_of(*member));
    if (id >= vocabulary.size()) return member->wrong("the id of a token");
    unigram.unknown.unknown = id;
  }
  unigram.unknown.fuse = true;
  IMEX_TRY(const bool bytes, model.flag("byte_fallback", false));
  if (bytes) unigram.unknown.bytes = fallback_byte_tokens(vocabulary);
  double lowest = std::numeric_limits<double>::infinity();
  std::vector<Piece> pieces;
  for (const Listed& token : listed) {
    lowest = std::min(lowest, token.score);
    const bool byte = bytes && parse_byte_token(token.text);
    const bool reserved = vocabulary.special(token.id) || token.id == unigram.unknown.unknown;
    if (!byte && !reserved) pieces.push_back({token.text, token.id});
  }
  unigram.unknown_score = lowest - 10;  // what SentencePiece charges for an unknown character
  unigram.pieces = PieceTrie(std::move(pieces));
  return Model(std::move(unigram));
}

Result<Tokenizer> build(const JsonView& root) {
  TokenizerParts parts;
  PreTokenizing facts;
  TokenDecoding decoding;
  if (const auto json = root.find("normalizer")) IMEX_CHECK_OK(read_normalizer(*json, parts));
  if (const auto json = root.find("pre_tokenizer")) {
    IMEX_CHECK_OK(read_pre_tokenizer(*json, parts, facts));
  }
  if (const auto json = root.find("decoder")) IMEX_CHECK_OK(read_decoder(*json, parts, decoding));
  IMEX_TRY(const JsonView model, root.member("model"));
  IMEX_TRY(const auto kind, model.text_or("type", "BPE"));
  if (kind != "BPE" && kind != "Unigram") {
    return fail(Errc::kUnsupported, fmt::format("tokenizer.json: model '{}'", kind),
                "known are BPE and Unigram");
  }
  const bool bpe = kind == "BPE";
  IMEX_TRY(const auto listed, bpe ? read_vocabulary(model) : read_scores(model));
  IMEX_TRY(const auto added, read_added(root));
  IMEX_CHECK_OK(check_steps(parts, decoding));
  IMEX_CHECK_OK(fill(listed, added, facts.byte_level, decoding, parts));
  IMEX_TRY(parts.model, bpe ? read_bpe(model, facts.byte_level, parts.vocabulary)
                            : read_unigram(model, listed, parts.vocabulary));
  if (const auto json = root.find("post_processor")) {
    IMEX_CHECK_OK(read_post_processor(*json, parts));
  }
  return Tokenizer(std::move(parts));
}

}  // namespace

Result<Tokenizer> read_tokenizer_json(std::string_view text) {
  return within_memory("tokenizer.json", [&]() -> Result<Tokenizer> {
    JsonDocument document(kDepthMax);
    IMEX_TRY(const auto root, document.parse<simdjson::dom::element>(text, "tokenizer.json"));
    return build(JsonView(root, "$"));
  });
}

}  // namespace imex::inference
