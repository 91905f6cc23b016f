// Tokenizers from GGUF metadata: SentencePiece BPE ("llama") and byte-level BPE ("gpt2").
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "assembly.hpp"
#include "base/exhaustion.hpp"
#include "byte_alphabet.hpp"
#include "inference/tokenizer/tokenizer.hpp"
#include "tokenizer_parts.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

enum TokenType : std::int32_t { kNormal = 1, kUnknown, kControl, kUser, kUnused, kByte };

/// What `tokenizer.ggml.pre` stands for.
struct PreTokenizer {
  std::string_view name;
  WordRules (*rules)() noexcept;
  bool digits_alone;  ///< before the words
  bool nfc;           ///< the model was trained on composed text
  bool whole_pieces_first;
};

constexpr std::array kPreTokenizers{
    PreTokenizer{"gpt-2", gpt2_rules, false, false, false},
    PreTokenizer{"smollm", gpt2_rules, true, false, false},
    PreTokenizer{"llama-bpe", llama3_rules, false, false, true},
    PreTokenizer{"llama3", llama3_rules, false, false, true},
    PreTokenizer{"llama-v3", llama3_rules, false, false, true},
    PreTokenizer{"smaug-bpe", llama3_rules, false, false, false},
    PreTokenizer{"qwen2", qwen2_rules, false, true, false},
    PreTokenizer{"deepseek-r1-qwen", qwen2_rules, false, true, false},
    PreTokenizer{"tekken", tekken_rules, false, false, true},
};

Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name) {
  const auto* const found = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  if (found != kPreTokenizers.end()) return found;
  std::string known;
  for (const PreTokenizer& one : kPreTokenizers) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  return fail(Errc::kUnsupported, fmt::format("unknown pre-tokenizer '{}'", name),
              fmt::format("known are {}", known));
}

Result<void> check(const GgufVocabulary& in) {
  const std::size_t count = in.tokens.size();
  if (count == 0 || count > (1U << 24U)) {
    return fail(Errc::kDataLoss, fmt::format("a vocabulary of {} tokens", count));
  }
  if ((!in.types.empty() && in.types.size() != count) ||
      (!in.scores.empty() && in.scores.size() != count)) {
    return fail(Errc::kDataLoss, fmt::format("{} tokens, but {} types and {} scores", count,
                                             in.types.size(), in.scores.size()));
  }
  for (const auto& id : {in.begin, in.end, in.unknown}) {
    if (id.value_or(0) >= count) {
      return fail(Errc::kDataLoss, fmt::format("special token {} of {} tokens", *id, count));
    }
  }
  for (const std::string_view token : in.tokens) {
    if (find_invalid_utf8(token) != std::string_view::npos) {
      return fail(Errc::kDataLoss, "a token of the vocabulary is not UTF-8");
    }
  }
  return {};
}

std::int32_t type_of(const GgufVocabulary& in, std::uint32_t id) {
  return in.types.empty() ? kNormal : in.types[id];
}

/// Control and user-defined tokens are found in text before the model runs.
AddedTokens added_of(const GgufVocabulary& in) {
  std::vector<AddedToken> added;
  for (std::uint32_t id = 0; id < in.tokens.size(); ++id) {
    const std::int32_t type = type_of(in, id);
    if (type != kControl && type != kUser && type != kUnknown) continue;
    added.push_back({.text = std::string(in.tokens[id]), .id = id, .special = type != kUser});
  }
  return AddedTokens(std::move(added));
}

void set_tokens(const GgufVocabulary& in, bool byte_level, TokenizerParts& parts) {
  parts.vocabulary.resize(in.tokens.size());
  for (std::uint32_t id = 0; id < in.tokens.size(); ++id) {
    const std::string text(in.tokens[id]);
    const std::int32_t type = type_of(in, id);
    if (type == kControl || type == kUnknown) parts.vocabulary.set_special(id);
    if (!in.scores.empty()) parts.vocabulary.set_score(id, in.scores[id]);
    const bool literal = type == kControl || type == kUser || type == kUnknown;
    if (byte_level) {
      const std::string bytes = literal ? text : from_byte_alphabet(text).value_or(text);
      parts.vocabulary.set(id, bytes, bytes);
    } else if (const auto byte = parse_byte_token(text); byte && !literal) {
      parts.vocabulary.set(id, text, std::string(1, static_cast<char>(*byte)));
    } else {
      parts.vocabulary.set(id, text, literal ? text : replace_all(text, kMarkedSpace, " "));
    }
    if (type != kControl && type != kUnknown) parts.vocabulary.index(id);
  }
  parts.raw_added = added_of(in);
}

Result<Model> byte_level_model(const GgufVocabulary& in, const PreTokenizer& pre,
                               const Vocabulary& vocabulary) {
  PairBpe model;
  model.whole_pieces_first = pre.whole_pieces_first;
  model.byte_tokens = single_byte_tokens(vocabulary);
  model.merges.reserve(in.merges.size());
  for (std::uint32_t rank = 0; rank < in.merges.size(); ++rank) {
    IMEX_TRY(const auto pair, parse_merge(in.merges[rank]));
    const auto left = from_byte_alphabet(pair.first);
    const auto right = from_byte_alphabet(pair.second);
    if (!left || !right) {
      return fail(Errc::kDataLoss, fmt::format("merge {} is not in the byte alphabet", rank));
    }
    IMEX_CHECK_OK(add_merge(vocabulary, *left, *right, rank, model.merges));
  }
  return Model(std::move(model));
}

Model score_model(const GgufVocabulary& in, const Vocabulary& vocabulary) {
  ScoreBpe model;
  model.unknown = {
      .unknown = in.unknown.value_or(0), .fuse = true, .bytes = fallback_byte_tokens(vocabulary)};
  model.unused.resize(in.tokens.size());
  for (std::uint32_t id = 0; id < in.tokens.size(); ++id) {
    model.unused[id] = type_of(in, id) == kUnused;
  }
  return model;
}

void set_ends(const GgufVocabulary& in, bool begin_by_default, TokenizerParts& parts) {
  if (in.add_begin.value_or(begin_by_default) && in.begin) parts.begin = {*in.begin};
  if (in.add_end.value_or(false) && in.end) parts.end = {*in.end};
}

Result<Tokenizer> build_from_metadata(const GgufVocabulary& in) {
  IMEX_CHECK_OK(check(in));
  TokenizerParts parts;
  if (in.model == "gpt2") {
    IMEX_TRY(const auto* const pre, find_pre_tokenizer(in.pre));
    set_tokens(in, true, parts);
    IMEX_TRY(parts.model, byte_level_model(in, *pre, parts.vocabulary));
    if (pre->nfc) parts.normalizer.emplace_back(ComposeNfc{});
    if (pre->digits_alone)
      parts.splitters.push_back({.kind = Splitter::Kind::kDigits, .rules = {}});
    parts.splitters.push_back({.kind = Splitter::Kind::kWords, .rules = pre->rules()});
    if (in.add_space_prefix.value_or(false)) parts.prefix.text = " ";
    // Where the file does not say, llama.cpp puts the begin token of these two families only.
    set_ends(in, pre->rules == llama3_rules || pre->rules == tekken_rules, parts);
    return Tokenizer(std::move(parts));
  }
  if (in.model == "llama") {
    if (in.scores.empty())
      return fail(Errc::kDataLoss, "a SentencePiece vocabulary without scores");
    set_tokens(in, false, parts);
    parts.model = score_model(in, parts.vocabulary);
    parts.space = kMarkedSpace;
    if (in.add_space_prefix.value_or(true)) {
      parts.prefix = {
          .text = std::string(kMarkedSpace), .only_at_start = false, .unless_there = false};
      parts.strip_spaces = 1;
    }
    set_ends(in, true, parts);
    return Tokenizer(std::move(parts));
  }
  return fail(Errc::kUnsupported, fmt::format("tokenizer model '{}'", in.model),
              "known are llama (SentencePiece BPE) and gpt2 (byte-level BPE)");
}

}  // namespace

Result<Tokenizer> make_gguf_tokenizer(const GgufVocabulary& vocabulary) {
  return within_memory("the tokenizer", [&] { return build_from_metadata(vocabulary); });
}

}  // namespace imex::inference
