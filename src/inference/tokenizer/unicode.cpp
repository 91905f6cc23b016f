#include "unicode.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "unicode_tables.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

/// The entry of the run that `code` lies in; code points stand above `shift`.
std::uint32_t run_of(std::span<const std::uint32_t> runs, char32_t code, unsigned shift) noexcept {
  const auto after =
      std::ranges::upper_bound(runs, std::uint32_t{code} << shift | ((1U << shift) - 1));
  return *(after - 1);
}

unsigned combining_class(char32_t code) noexcept {
  return code < 0x300 ? 0 : run_of(combining_runs(), code, 8) & 0xffU;
}

struct Decomposition {
  char32_t first, second;
};

std::optional<Decomposition> decomposition_of(char32_t code) noexcept {
  const auto all = decompositions();
  const auto found = std::ranges::lower_bound(all, std::uint64_t{code} << 43U);
  if (found == all.end() || *found >> 43U != code) return std::nullopt;
  return Decomposition{static_cast<char32_t>(*found >> 22U & 0x1f'ffffU),
                       static_cast<char32_t>(*found >> 1U & 0x1f'ffffU)};
}

/// (first, second) -> composed, sorted; made once from the decompositions.
struct Pair {
  std::uint64_t parts;
  char32_t composed;
};

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> kPairs = [] {
    std::vector<Pair> made;
    for (const std::uint64_t entry : decompositions()) {
      if ((entry & 1U) != 0 || (entry >> 1U & 0x1f'ffffU) == 0) continue;
      made.push_back({entry >> 1U & 0x3ff'ffff'ffffU, static_cast<char32_t>(entry >> 43U)});
    }
    std::ranges::sort(made, {}, &Pair::parts);
    return made;
  }();
  return kPairs;
}

// Hangul syllables are composed by arithmetic (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xac00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11a7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28,
                   kSyllableCount = kLeadCount * kVowelCount * kTailCount;

char32_t compose(char32_t first, char32_t second) noexcept {  // 0: they do not
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + second - kVowels) * kTailCount;
  }
  if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTailCount == 0 &&
      second > kTails && second < kTails + kTailCount) {
    return first + second - kTails;
  }
  const std::uint64_t parts = std::uint64_t{first} << 21U | second;
  const auto found = std::ranges::lower_bound(pairs(), parts, {}, &Pair::parts);
  return found == pairs().end() || found->parts != parts ? 0 : found->composed;
}

void append_decomposed(std::vector<char32_t>& out, char32_t code) {
  if (code - kSyllables < kSyllableCount) {
    const char32_t index = code - kSyllables;
    out.push_back(kLeads + index / (kVowelCount * kTailCount));
    out.push_back(kVowels + index / kTailCount % kVowelCount);
    if (index % kTailCount != 0) out.push_back(kTails + index % kTailCount);
    return;
  }
  const auto parts = decomposition_of(code);
  if (!parts) return out.push_back(code);
  append_decomposed(out, parts->first);  // as deep as Unicode nests: three
  if (parts->second != 0) append_decomposed(out, parts->second);
}

/// Runs of marks in the order of their classes.
void order_marks(std::vector<char32_t>& text) {
  for (auto at = text.begin(); at != text.end();) {
    const auto is_mark = [](char32_t code) { return combining_class(code) != 0; };
    const auto begin = std::find_if(at, text.end(), is_mark);
    at = std::find_if_not(begin, text.end(), is_mark);
    std::ranges::stable_sort(begin, at, {}, combining_class);
  }
}

void compose_in_place(std::vector<char32_t>& text) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::size_t starter = kNone;
  std::size_t end = 0;      // of what is kept
  unsigned last_class = 0;  // of the character before, if it was kept after the starter
  for (const char32_t code : text) {
    const unsigned own_class = combining_class(code);
    const bool blocked = starter == kNone || (starter + 1 != end && last_class >= own_class);
    if (const char32_t composed = blocked ? 0 : compose(text[starter], code); composed != 0) {
      text[starter] = composed;
      continue;
    }
    if (own_class == 0) starter = end;
    last_class = own_class;
    text[end++] = code;
  }
  text.resize(end);
}

}  // namespace

CharClass class_of(char32_t code) noexcept {
  if (code < 0x80) {
    if (code - U'a' < 26) return CharClass::kLower;
    if (code - U'A' < 26) return CharClass::kUpper;
    if (code - U'0' < 10) return CharClass::kNumber;
    return code == U' ' || code - U'\t' < 5 ? CharClass::kSpace : CharClass::kOther;
  }
  return static_cast<CharClass>(run_of(class_runs(), code, 3) & 7U);
}

std::string to_nfc(std::string_view text) {
  // Characters below U+0300 neither compose with each other nor decompose for good.
  const bool plain =
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xcc; });
  if (plain) return std::string(text);
  std::vector<char32_t> codes;
  codes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    append_decomposed(codes, character.code);
    at += character.bytes;
  }
  order_marks(codes);
  compose_in_place(codes);
  std::string out;
  out.reserve(text.size());
  for (const char32_t code : codes) append_utf8(out, code);
  return out;
}

}  // namespace imex::inference
