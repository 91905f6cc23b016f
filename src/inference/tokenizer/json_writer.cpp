// tokenizer.json from a tokenizer of any origin, as the library `tokenizers` reads it.
#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "assembly.hpp"
#include "base/exhaustion.hpp"
#include "byte_alphabet.hpp"
#include "inference/tokenizer/tokenizer.hpp"
#include "tokenizer_parts.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

using Written = nlohmann::ordered_json;

Written replace_step(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}
Written written_step(const PrependText& step) {
  return {{"type", "Prepend"}, {"prepend", step.text}};
}
Written written_step(const ReplaceText& step) { return replace_step(step.from, step.to); }
Written written_step(const ComposeNfc&) { return {{"type", "NFC"}}; }

/// One step as itself, several as a sequence, none as null.
Written in_sequence(std::vector<Written> steps, const char* member) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return std::move(steps.front());
  return {{"type", "Sequence"}, {member, std::move(steps)}};
}

class JsonWriter {
 public:
  explicit JsonWriter(const TokenizerParts& parts)
      : parts_(parts), byte_level_(has_byte_tokens(parts)) {}

  Result<std::string> write() {
    Written root{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
    root["added_tokens"] = added_tokens();
    IMEX_TRY(root["normalizer"], normalizer());
    IMEX_TRY(root["pre_tokenizer"], pre_tokenizer());
    root["post_processor"] = post_processor();
    root["decoder"] = decoder();
    IMEX_TRY(root["model"], model());
    return root.dump(1) + "\n";
  }

 private:
  static bool has_byte_tokens(const TokenizerParts& parts) {
    const auto* const pairs = std::get_if<PairBpe>(&parts.model);
    return pairs != nullptr && pairs->byte_tokens.has_value();
  }
  static tl::unexpected<Error> cannot_say(std::string_view what) {
    return fail(Errc::kUnsupported, fmt::format("tokenizer.json cannot say {}", what));
  }

  [[nodiscard]] bool is_added(std::uint32_t id) const {
    const std::string& text = parts_.vocabulary.text(id);
    for (const AddedTokens* tokens : {&parts_.raw_added, &parts_.normalized_added}) {
      const AddedToken* const found = tokens->find(text);
      if (found != nullptr && found->id == id) return true;
    }
    return false;
  }
  /// A token as the file spells it.
  [[nodiscard]] std::string spelled(std::uint32_t id) const {
    const std::string& text = parts_.vocabulary.text(id);
    return byte_level_ && !is_added(id) ? to_byte_alphabet(text) : text;
  }

  [[nodiscard]] Written added_tokens() const {
    std::vector<std::pair<const AddedToken*, bool>> all;
    for (const AddedToken& token : parts_.raw_added.tokens()) all.emplace_back(&token, false);
    for (const AddedToken& token : parts_.normalized_added.tokens()) all.emplace_back(&token, true);
    // Special tokens that no text becomes are told as such by this list alone.
    std::vector<AddedToken> silent;
    for (std::uint32_t id = 0; id < parts_.vocabulary.size(); ++id) {
      if (!parts_.vocabulary.special(id) || is_added(id)) continue;
      silent.push_back({.text = parts_.vocabulary.text(id), .id = id, .special = true});
    }
    for (const AddedToken& token : silent) all.emplace_back(&token, false);
    std::ranges::sort(all, {}, [](const auto& one) { return one.first->id; });
    Written list = Written::array();
    for (const auto& [token, normalized] : all) {
      list.push_back({{"id", token->id},
                      {"content", token->text},
                      {"single_word", false},
                      {"lstrip", token->strip_left},
                      {"rstrip", token->strip_right},
                      {"normalized", normalized},
                      {"special", token->special}});
    }
    return list;
  }

  [[nodiscard]] bool begins_with_byte_level_space() const {
    return byte_level_ && parts_.prefix.text == " ";
  }

  [[nodiscard]] Result<Written> normalizer() const {
    std::vector<Written> steps;
    for (const NormalizerStep& step : parts_.normalizer) {
      steps.push_back(std::visit([](const auto& one) { return written_step(one); }, step));
    }
    if (!parts_.prefix.text.empty() && !begins_with_byte_level_space()) {
      // A normalizer sees each section: where added tokens part the text, that differs.
      const bool sections = !parts_.raw_added.empty() || !parts_.normalized_added.empty();
      if (parts_.prefix.unless_there || (parts_.prefix.only_at_start && sections)) {
        return cannot_say("what is put in front of the text");
      }
      steps.push_back(written_step(PrependText{parts_.prefix.text}));
    }
    if (!parts_.space.empty()) steps.push_back(replace_step(" ", parts_.space));
    return in_sequence(std::move(steps), "normalizers");
  }

  [[nodiscard]] Result<Written> pre_tokenizer() const {
    std::vector<Written> steps;
    // GPT-2's words are a part of the step that follows, as everybody writes it.
    const auto& splitters = parts_.splitters;
    const bool words = byte_level_ && !splitters.empty() &&
                       splitters.back().kind == Splitter::Kind::kWords &&
                       splitters.back().rules == gpt2_rules();
    for (const Splitter& splitter :
         std::span(splitters).first(splitters.size() - (words ? 1 : 0))) {
      switch (splitter.kind) {
        case Splitter::Kind::kDigits:
        case Splitter::Kind::kDigitRuns:
          steps.push_back({{"type", "Digits"},
                           {"individual_digits", splitter.kind == Splitter::Kind::kDigits}});
          break;
        case Splitter::Kind::kWords:
          steps.push_back({{"type", "Split"},
                           {"pattern", {{"Regex", pattern_of(splitter.rules)}}},
                           {"behavior", "Isolated"},
                           {"invert", false}});
          break;
        case Splitter::Kind::kBeforeMark:
          return cannot_say("a cut before each mark without the rest of its step");
      }
    }
    if (byte_level_) {
      const bool prefix = begins_with_byte_level_space();
      if (prefix && !steps.empty()) return cannot_say("a space in front and words after it");
      steps.push_back({{"type", "ByteLevel"},
                       {"add_prefix_space", prefix},
                       {"trim_offsets", true},
                       {"use_regex", words}});
    }
    return in_sequence(std::move(steps), "pretokenizers");
  }

  [[nodiscard]] Written post_processor() const {
    if (parts_.begin.empty() && parts_.end.empty()) return nullptr;
    Written single = Written::array();
    Written specials = Written::object();
    const auto put = [&](const Ids& ids) {
      for (const std::uint32_t id : ids) {
        const std::string& text = parts_.vocabulary.text(id);
        single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
        specials[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
      }
    };
    put(parts_.begin);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    put(parts_.end);
    Written pair = single;
    pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
    return {{"type", "TemplateProcessing"},
            {"single", std::move(single)},
            {"pair", std::move(pair)},
            {"special_tokens", std::move(specials)}};
  }

  [[nodiscard]] Written decoder() const {
    if (byte_level_) {
      return {{"type", "ByteLevel"},
              {"add_prefix_space", false},
              {"trim_offsets", true},
              {"use_regex", false}};
    }
    std::vector<Written> steps;
    if (!parts_.space.empty()) steps.push_back(replace_step(parts_.space, " "));
    if (unknown_rule().bytes) steps.push_back({{"type", "ByteFallback"}});
    steps.push_back({{"type", "Fuse"}});
    if (parts_.strip_spaces != 0) {
      steps.push_back(
          {{"type", "Strip"}, {"content", " "}, {"start", parts_.strip_spaces}, {"stop", 0}});
    }
    return in_sequence(std::move(steps), "decoders");
  }

  [[nodiscard]] const UnknownRule& unknown_rule() const {
    return std::visit([](const auto& one) -> const UnknownRule& { return one.unknown; },
                      parts_.model);
  }

  Result<Written> model() {
    if (std::holds_alternative<Unigram>(parts_.model)) {
      return cannot_say("Unigram's scores: the model's own file does");
    }
    IMEX_TRY(Written vocabulary, written_vocabulary());
    const UnknownRule& unknown = unknown_rule();
    const auto* const pairs = std::get_if<PairBpe>(&parts_.model);
    return Written{{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", unknown.unknown ? Written(spelled(*unknown.unknown)) : nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", unknown.fuse},
                   {"byte_fallback", unknown.bytes.has_value()},
                   {"ignore_merges", pairs != nullptr && pairs->whole_pieces_first},
                   {"vocab", std::move(vocabulary)},
                   {"merges", pairs != nullptr ? written_merges(ranked_merges(*pairs))
                                               : written_merges(scored_merges())}};
  }

  Result<Written> written_vocabulary() const {
    Written vocabulary = Written::object();
    // ordered_json looks a key up by going through all of them.
    auto& members = vocabulary.get_ref<Written::object_t&>();
    std::unordered_set<std::string> seen;
    for (std::uint32_t id = 0; id < parts_.vocabulary.size(); ++id) {
      if (parts_.vocabulary.text(id).empty()) continue;
      std::string text = spelled(id);
      if (find_invalid_utf8(text) != std::string_view::npos) {
        return cannot_say(fmt::format("token {}, which is no UTF-8", id));
      }
      if (!seen.insert(text).second)
        return cannot_say(fmt::format("that two tokens are '{}'", text));
      members.push_back({std::move(text), id});
    }
    return vocabulary;
  }

  struct TwoParts {
    std::string left, right;
  };

  std::vector<TwoParts> ranked_merges(const PairBpe& pairs) const {
    auto merges = pairs.merges.all();
    std::ranges::sort(merges, {}, &PairTable::Entry::rank);
    std::vector<TwoParts> listed;
    listed.reserve(merges.size());
    for (const PairTable::Entry& merge : merges) {
      listed.push_back({spelled(merge.left), spelled(merge.right)});
    }
    return listed;
  }

  /// SentencePiece merges any two tokens whose text together is one, the highest score first: as a
  /// list of merges that is every cut of every token, in the order of scores.
  std::vector<TwoParts> scored_merges() const {
    struct Cut {
      double score;
      std::uint32_t left, right;
    };
    std::vector<Cut> cuts;
    const Vocabulary& vocabulary = parts_.vocabulary;
    for (std::uint32_t id = 0; id < vocabulary.size(); ++id) {
      const std::string_view text = vocabulary.text(id);
      if (vocabulary.find_ordinary(text) != id) continue;
      for (std::size_t at = 1; at < text.size(); ++at) {
        const auto left = vocabulary.find_ordinary(text.substr(0, at));
        const auto right = vocabulary.find_ordinary(text.substr(at));
        if (left && right) cuts.push_back({vocabulary.score(id), *left, *right});
      }
    }
    std::ranges::stable_sort(cuts, [](const Cut& a, const Cut& b) {
      return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
    });
    std::vector<TwoParts> listed;
    listed.reserve(cuts.size());
    for (const Cut& cut : cuts)
      listed.push_back({vocabulary.text(cut.left), vocabulary.text(cut.right)});
    return listed;
  }

  /// "left right" as all readers know it; pairs of texts, which newer ones read, where a text has a
  /// space of its own.
  static Written written_merges(const std::vector<TwoParts>& merges) {
    const bool spaces = std::ranges::any_of(merges, [](const TwoParts& merge) {
      return (merge.left + merge.right).find(' ') != std::string::npos;
    });
    Written list = Written::array();
    for (const TwoParts& merge : merges) {
      if (spaces) {
        list.push_back({merge.left, merge.right});
      } else {
        list.push_back(fmt::format("{} {}", merge.left, merge.right));
      }
    }
    return list;
  }

  const TokenizerParts& parts_;
  bool byte_level_;
};

}  // namespace

Result<std::string> write_tokenizer_json(const Tokenizer& tokenizer) {
  return within_memory("tokenizer.json", [&] { return JsonWriter(tokenizer.parts()).write(); });
}

}  // namespace imex::inference
