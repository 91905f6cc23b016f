/// The tokens: text to id by a hash table of ids, id to text, and the bytes that each token stands
/// for in output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace imex::inference {

/// Built once by a loader, then only read.
class Vocabulary {
 public:
  /// Makes room for ids below `size`; all are empty at first.
  explicit Vocabulary(std::size_t size = 0) : tokens_(size) {}

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(tokens_.size());
  }
  void resize(std::size_t size) { tokens_.resize(size); }

  /// What the model matches and what output shows. Byte-level tokens are kept as raw bytes in both.
  void set(std::uint32_t id, std::string text, std::string output);
  void set_score(std::uint32_t id, double score) { tokens_[id].score = score; }
  void set_special(std::uint32_t id) { tokens_[id].special = true; }
  /// From now on find() knows the token; of equal texts the first one indexed is found.
  void index(std::uint32_t id);

  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view text) const noexcept;
  /// What text may become by itself: never a special token, however it is spelled.
  [[nodiscard]] std::optional<std::uint32_t> find_ordinary(std::string_view text) const noexcept;
  [[nodiscard]] const std::string& text(std::uint32_t id) const noexcept {
    return tokens_[id].text;
  }
  [[nodiscard]] const std::string& output(std::uint32_t id) const noexcept {
    return tokens_[id].output;
  }
  [[nodiscard]] double score(std::uint32_t id) const noexcept { return tokens_[id].score; }
  [[nodiscard]] bool special(std::uint32_t id) const noexcept { return tokens_[id].special; }

 private:
  struct Token {
    std::string text, output;
    double score = 0;
    bool special = false;
  };
  void grow();
  [[nodiscard]] std::size_t slot_of(std::string_view text) const noexcept;

  std::vector<Token> tokens_;
  std::vector<std::uint32_t> slots_;  // id + 1, 0: free; open addressing, at most half full
  std::size_t indexed_ = 0;
  std::size_t longest_ = 0;  // bytes of an indexed text: what is longer cannot be a token
};

}  // namespace imex::inference
