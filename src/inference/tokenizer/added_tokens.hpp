/// Tokens that are found in text before the model sees it, "<|im_end|>": the leftmost first, of
/// several at one place the longest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace imex::inference {

struct AddedToken {
  std::string text;
  std::uint32_t id = 0;
  bool special = false;      ///< only where the caller trusts the text
  bool strip_left = false;   ///< takes the white space before it
  bool strip_right = false;  ///< and after it
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Of equal texts the first stays. Empty texts are ignored.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }
  [[nodiscard]] const std::vector<AddedToken>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] const AddedToken* find(std::string_view text) const noexcept;

  struct Match {
    std::size_t begin = 0, end = 0;  ///< white space that it takes included
    std::uint32_t id = 0;
  };
  /// The first match at or after `from`. O(length of the way times the longest token).
  [[nodiscard]] std::optional<Match> next(std::string_view text, std::size_t from,
                                          bool with_special) const noexcept;

 private:
  [[nodiscard]] const AddedToken* longest_at(std::string_view text,
                                             bool with_special) const noexcept;
  std::vector<AddedToken> tokens_;  // sorted by text, so that those of one first byte lie together
};

}  // namespace imex::inference
