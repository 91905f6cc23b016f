#include "splitter.hpp"

#include <algorithm>

#include "unicode.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Finds the end of the piece that starts at a place, alternative by alternative.
class WordScanner {
 public:
  WordScanner(std::string_view text, const WordRules& rules) noexcept
      : text_(text), rules_(rules) {}

  /// The alternatives cover every text, so `at` < text.size() gives more than `at`.
  [[nodiscard]] std::size_t end_of_piece(std::size_t at) const noexcept {
    if (const std::size_t end = contraction(at); end != at) return end;
    if (const std::size_t end = letters(at); end != at) return end;
    if (const std::size_t end = number(at); end != at) return end;
    if (const std::size_t end = signs(at); end != at) return end;
    return spaces(at);
  }

 private:
  struct Place {
    char32_t code = 0;
    CharClass kind = CharClass::kOther;
    std::size_t next = 0;  ///< offset after the character
    bool end = true;       ///< of the text: no character here
  };

  [[nodiscard]] Place look(std::size_t at) const noexcept {
    if (at >= text_.size()) return {.next = at};
    const Character character = first_character(text_.substr(at));
    return {character.code, class_of(character.code), at + character.bytes, false};
  }

  template <class Predicate>
  [[nodiscard]] std::size_t skip(std::size_t at, Predicate matches) const noexcept {
    for (Place place = look(at); !place.end && matches(place); place = look(at)) at = place.next;
    return at;
  }

  [[nodiscard]] std::size_t contraction(std::size_t at) const noexcept {
    using Contractions = WordRules::Contractions;
    if (rules_.contractions == Contractions::kNone || text_[at] != '\'') return at;
    const auto folded = [&](const Place& place) -> char32_t {
      if (rules_.contractions == Contractions::kLowerCase) return place.code;
      if (place.code == 0x17f) return U's';  // long s, by Unicode's case folding
      return place.code - U'A' < 26 ? place.code + (U'a' - U'A') : place.code;
    };
    const Place first = look(at + 1);
    const char32_t a = folded(first);
    if (a == U's' || a == U't' || a == U'm' || a == U'd') return first.next;
    const Place second = look(first.next);
    const char32_t b = folded(second);
    const bool pair =
        (a == U'r' && b == U'e') || (a == U'v' && b == U'e') || (a == U'l' && b == U'l');
    return pair ? second.next : at;
  }

  [[nodiscard]] std::size_t letters(std::size_t at) const noexcept {
    const Place first = look(at);
    const bool leads = rules_.letters == WordRules::Letters::kAfterSpace
                           ? first.code == U' '
                           : first.code != U'\r' && first.code != U'\n' && !is_letter(first.kind) &&
                                 first.kind != CharClass::kNumber;
    if (leads) {
      if (const std::size_t end = word(first.next); end != first.next) return end;
    }
    return word(at);
  }

  /// Letters without what may lead them; `at` if there are none.
  [[nodiscard]] std::size_t word(std::size_t at) const noexcept {
    if (rules_.letters == WordRules::Letters::kByCase) return cased_word(at);
    return skip(at, [](const Place& place) { return is_letter(place.kind); });
  }

  /// upper* lower+ | upper+ lower*, where letters without case and marks are both.
  [[nodiscard]] std::size_t cased_word(std::size_t at) const noexcept {
    const auto both = [](CharClass kind) {
      return kind == CharClass::kOtherLetter || kind == CharClass::kMark;
    };
    std::size_t upper_end = at;
    std::size_t last_both_end = at;  // after the last character that can count as lower
    for (Place place = look(at); !place.end; place = look(upper_end)) {
      if (place.kind != CharClass::kUpper && !both(place.kind)) break;
      upper_end = place.next;
      if (both(place.kind)) last_both_end = upper_end;
    }
    const auto lower = [&](const Place& place) {
      return place.kind == CharClass::kLower || both(place.kind);
    };
    if (const std::size_t end = skip(upper_end, lower); end != upper_end) return end;
    // No lower-case letter follows: upper* gives back until one of both kinds is lower+.
    return last_both_end != at ? last_both_end : upper_end;
  }

  [[nodiscard]] std::size_t number(std::size_t at) const noexcept {
    const auto digit = [](const Place& place) { return place.kind == CharClass::kNumber; };
    if (rules_.digits_max == 0) {
      const std::size_t start = text_[at] == ' ' ? at + 1 : at;
      const std::size_t end = skip(start, digit);
      return end != start ? end : at;
    }
    std::uint32_t left = rules_.digits_max;
    return skip(at, [&](const Place& place) { return digit(place) && left-- != 0; });
  }

  [[nodiscard]] std::size_t signs(std::size_t at) const noexcept {
    const std::size_t start = text_[at] == ' ' ? at + 1 : at;
    const std::size_t end = skip(start, [](const Place& place) {
      return place.kind == CharClass::kOther || place.kind == CharClass::kMark;
    });
    if (end == start) return at;
    const std::size_t tail = text_.find_first_not_of(rules_.sign_tail, end);
    return rules_.sign_tail.empty() ? end : std::min(tail, text_.size());
  }

  [[nodiscard]] std::size_t spaces(std::size_t at) const noexcept {
    std::size_t end = at;
    std::size_t before_last = at;  // where the last space of the run starts
    std::size_t line_end = at;     // after the last CR or LF of the run
    for (Place place = look(at); !place.end && place.kind == CharClass::kSpace; place = look(end)) {
      before_last = end;
      end = place.next;
      if (place.code == U'\r' || place.code == U'\n') line_end = end;
    }
    if (rules_.line_ends && line_end != at) return line_end;
    // The last space of a run leads what follows it.
    return end == text_.size() || before_last == at ? end : before_last;
  }

  std::string_view text_;
  const WordRules& rules_;
};

using Pieces = std::vector<std::string_view>;

void split_words(const WordRules& rules, std::string_view text, Pieces& out) {
  const WordScanner scanner(text, rules);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = scanner.end_of_piece(at);
    out.push_back(text.substr(at, end - at));
    at = end;
  }
}

/// Digits alone or in runs, and what is between them.
void split_digits(bool single, std::string_view text, Pieces& out) {
  std::size_t start = 0;
  bool in_digits = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    const bool digit = class_of(character.code) == CharClass::kNumber;
    if (at != start && (digit != in_digits || (digit && single))) {
      out.push_back(text.substr(start, at - start));
      start = at;
    }
    in_digits = digit;
    at += character.bytes;
  }
  if (start != text.size()) out.push_back(text.substr(start));
}

void split_before_marks(std::string_view text, Pieces& out) {
  constexpr std::string_view kMark = "\u2581";
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t next = std::min(text.find(kMark, start + 1), text.size());
    out.push_back(text.substr(start, next - start));
    start = next;
  }
}

void apply(const Splitter& splitter, std::string_view text, Pieces& out) {
  switch (splitter.kind) {
    case Splitter::Kind::kWords:
      return split_words(splitter.rules, text, out);
    case Splitter::Kind::kDigits:
      return split_digits(true, text, out);
    case Splitter::Kind::kDigitRuns:
      return split_digits(false, text, out);
    case Splitter::Kind::kBeforeMark:
      return split_before_marks(text, out);
  }
}

}  // namespace

WordRules gpt2_rules() noexcept { return {}; }

WordRules llama3_rules() noexcept {
  return {.contractions = WordRules::Contractions::kAnyCase,
          .letters = WordRules::Letters::kAfterSign,
          .digits_max = 3,
          .sign_tail = "\r\n",
          .line_ends = true};
}

WordRules qwen2_rules() noexcept {
  WordRules rules = llama3_rules();
  rules.digits_max = 1;
  return rules;
}

WordRules tekken_rules() noexcept {
  return {.contractions = WordRules::Contractions::kNone,
          .letters = WordRules::Letters::kByCase,
          .digits_max = 1,
          .sign_tail = "\r\n/",
          .line_ends = true};
}

std::optional<WordRules> find_word_rules(std::string_view pattern) noexcept {
  if (pattern == kGpt2) return gpt2_rules();
  if (pattern == kLlama3) return llama3_rules();
  if (pattern == kQwen2) return qwen2_rules();
  if (pattern == kTekken) return tekken_rules();
  return std::nullopt;
}

std::string_view pattern_of(const WordRules& rules) noexcept {
  if (rules == llama3_rules()) return kLlama3;
  if (rules == qwen2_rules()) return kQwen2;
  if (rules == tekken_rules()) return kTekken;
  return kGpt2;
}

void split(const std::vector<Splitter>& splitters, std::string_view text,
           std::vector<std::string_view>& pieces) {
  Pieces current{text};
  for (const Splitter& splitter : splitters) {
    Pieces next;
    for (const std::string_view piece : current) apply(splitter, piece, next);
    current.swap(next);
  }
  pieces.insert(pieces.end(), current.begin(), current.end());
}

}  // namespace imex::inference
