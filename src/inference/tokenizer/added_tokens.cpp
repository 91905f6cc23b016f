#include "added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "unicode.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

/// Start of the white space that ends at `end`, not before `from`.
std::size_t spaces_before(std::string_view text, std::size_t from, std::size_t end) noexcept {
  while (end > from) {
    std::size_t start = end - 1;
    while (start > from && (static_cast<unsigned char>(text[start]) & 0xc0U) == 0x80) --start;
    if (class_of(first_character(text.substr(start)).code) != CharClass::kSpace) break;
    end = start;
  }
  return end;
}

std::size_t spaces_after(std::string_view text, std::size_t at) noexcept {
  while (at < text.size()) {
    const Character character = first_character(text.substr(at));
    if (class_of(character.code) != CharClass::kSpace) break;
    at += character.bytes;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  std::ranges::stable_sort(tokens_, {}, &AddedToken::text);
  const auto rest = std::ranges::unique(tokens_, {}, &AddedToken::text);
  tokens_.erase(rest.begin(), rest.end());
}

const AddedToken* AddedTokens::find(std::string_view text) const noexcept {
  const auto at = std::ranges::lower_bound(
      tokens_, text, {}, [](const AddedToken& token) { return std::string_view(token.text); });
  return at != tokens_.end() && at->text == text ? &*at : nullptr;
}

/// Narrows the sorted list byte by byte, as a trie would: each round keeps the texts that share one
/// more byte with `text`; the shortest of them stands first.
const AddedToken* AddedTokens::longest_at(std::string_view text, bool with_special) const noexcept {
  const AddedToken* best = nullptr;
  auto begin = tokens_.begin();
  auto end = tokens_.end();
  for (std::size_t i = 0; i < text.size() && begin != end; ++i) {
    const auto byte_of = [i](const AddedToken& token) {
      return i < token.text.size() ? static_cast<unsigned char>(token.text[i]) : -1;
    };
    const int wanted = static_cast<unsigned char>(text[i]);
    const auto same = std::ranges::equal_range(begin, end, wanted, {}, byte_of);
    begin = same.begin();
    end = same.end();
    if (begin != end && begin->text.size() == i + 1 && (with_special || !begin->special)) {
      best = &*begin;
    }
  }
  return best;
}

std::optional<AddedTokens::Match> AddedTokens::next(std::string_view text, std::size_t from,
                                                    bool with_special) const noexcept {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    const AddedToken* const token = longest_at(text.substr(at), with_special);
    if (token == nullptr) continue;
    Match match{at, at + token->text.size(), token->id};
    if (token->strip_left) match.begin = spaces_before(text, from, match.begin);
    if (token->strip_right) match.end = spaces_after(text, match.end);
    return match;
  }
  return std::nullopt;
}

}  // namespace imex::inference
