/// Which tokens begin at a place of a text: all of them in one walk, a byte at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace imex::inference {

struct Piece {
  std::string_view text;
  std::uint32_t id = 0;
};

/// Immutable; twelve bytes for each distinct prefix of a token.
class PieceTrie {
 public:
  PieceTrie() = default;
  /// Of equal texts the highest id stays, as in the original; empty ones are ignored. Borrows
  /// nothing. O(bytes of all texts), after sorting them.
  explicit PieceTrie(std::vector<Piece> pieces);

  /// Calls use(bytes, id) for each token that `text` starts with, the shortest first.
  template <class Use>
  void for_each_prefix(std::string_view text, Use use) const {
    const Node* node = nodes_.data();
    for (std::size_t i = 0; i < text.size() && node != nullptr; ++i) {
      node = child(*node, static_cast<unsigned char>(text[i]));
      if (node != nullptr && node->id != kNone) use(i + 1, node->id);
    }
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    std::uint32_t id = kNone;
    std::uint32_t first = 0;  // its children lie together, by byte
    std::uint16_t count = 0;
    unsigned char byte = 0;
  };
  [[nodiscard]] const Node* child(const Node& node, unsigned char byte) const noexcept;

  std::vector<Node> nodes_;  // level by level, the root in front
};

}  // namespace imex::inference
