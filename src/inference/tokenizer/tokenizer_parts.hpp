/// All that a loader decides about a tokenizer; Tokenizer only carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "added_tokens.hpp"
#include "model.hpp"
#include "splitter.hpp"
#include "vocabulary.hpp"

namespace imex::inference {

// Steps of normalising, in order.
struct PrependText {
  std::string text;
};
struct ReplaceText {
  std::string from, to;  ///< `from` is not empty
};
struct ComposeNfc {};
using NormalizerStep = std::variant<PrependText, ReplaceText, ComposeNfc>;

/// Text put in front of a section before it is split.
struct SectionPrefix {
  std::string text;            ///< empty: nothing
  bool only_at_start = false;  ///< of the whole text, not after an added token
  bool unless_there = true;    ///< not where the section already starts with it
};

struct TokenizerParts {
  Vocabulary vocabulary;
  AddedTokens raw_added;         ///< matched in the text as it came
  AddedTokens normalized_added;  ///< matched in the normalised text
  std::vector<NormalizerStep> normalizer;
  SectionPrefix prefix;
  std::string space;  ///< what a space becomes after `prefix` is in front; empty: stays
  std::vector<Splitter> splitters;
  Model model;
  std::vector<std::uint32_t> begin, end;  ///< around a text
  std::size_t strip_spaces = 0;           ///< dropped at the start of decoded text
};

[[nodiscard]] std::string normalize(const std::vector<NormalizerStep>& steps,
                                    std::string_view text);
[[nodiscard]] std::string replace_all(std::string_view text, std::string_view from,
                                      std::string_view to);

}  // namespace imex::inference
