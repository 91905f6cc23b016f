/// Pre-tokenizers: how text is cut before the model sees it. The patterns that tokenizers spell as
/// regular expressions are one family; each is a row of rules, scanned in linear time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace imex::inference {

/// A member of the family, in the order in which its alternatives are tried:
///   contraction | letters | numbers | other signs | line ends | spaces before more | spaces
struct WordRules {
  enum class Contractions : std::uint8_t { kNone, kLowerCase, kAnyCase };
  enum class Letters : std::uint8_t {
    kAfterSpace,  ///< ` ?\p{L}+`
    kAfterSign,   ///< `[^\r\n\p{L}\p{N}]?\p{L}+`
    kByCase,      ///< the same, but an upper-case letter after a lower-case one begins a word
  };
  Contractions contractions = Contractions::kLowerCase;
  Letters letters = Letters::kAfterSpace;
  std::uint32_t digits_max = 0;  ///< of a number; 0: ` ?\p{N}+`
  std::string_view sign_tail;    ///< these follow a run of signs: "\r\n"
  bool line_ends = false;        ///< `\s*[\r\n]+`

  friend bool operator==(const WordRules&, const WordRules&) = default;
};

/// The rules of a pattern as it stands in tokenizer.json; none if it is not of the family.
[[nodiscard]] std::optional<WordRules> find_word_rules(std::string_view pattern) noexcept;
/// The pattern of rules that find_word_rules() or one of the following gave.
[[nodiscard]] std::string_view pattern_of(const WordRules& rules) noexcept;
[[nodiscard]] WordRules gpt2_rules() noexcept;
[[nodiscard]] WordRules llama3_rules() noexcept;
[[nodiscard]] WordRules qwen2_rules() noexcept;
[[nodiscard]] WordRules tekken_rules() noexcept;

/// One way to cut; several apply one after the other, each to the pieces of the one before.
struct Splitter {
  enum class Kind : std::uint8_t {
    kWords,       ///< `rules`
    kDigits,      ///< every digit is a piece
    kDigitRuns,   ///< every run of digits is a piece
    kBeforeMark,  ///< a piece begins at every U+2581
  };
  Kind kind = Kind::kWords;
  WordRules rules;
};

/// Cuts `text` (valid UTF-8) by all of `splitters`; appends the pieces, which cover it.
void split(const std::vector<Splitter>& splitters, std::string_view text,
           std::vector<std::string_view>& pieces);

}  // namespace imex::inference
