#include "piece_trie.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace imex::inference {

PieceTrie::PieceTrie(std::vector<Piece> pieces) {
  std::ranges::sort(pieces, {}, [](const Piece& piece) { return std::pair(piece.text, piece.id); });
  /// Pieces that share their first `depth` bytes: what lies below one node.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::deque<Range> waiting{{0, pieces.size(), 0}};
  nodes_.emplace_back();
  for (std::size_t at = 0; !waiting.empty(); ++at) {
    auto [begin, end, depth] = waiting.front();
    waiting.pop_front();
    for (; begin != end && pieces[begin].text.size() == depth; ++begin) {
      if (depth != 0) nodes_[at].id = pieces[begin].id;
    }
    nodes_[at].first = static_cast<std::uint32_t>(nodes_.size());
    while (begin != end) {
      const auto byte = static_cast<unsigned char>(pieces[begin].text[depth]);
      std::size_t next = begin;
      while (next != end && static_cast<unsigned char>(pieces[next].text[depth]) == byte) ++next;
      nodes_.push_back({.byte = byte});
      ++nodes_[at].count;
      waiting.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
}

const PieceTrie::Node* PieceTrie::child(const Node& node, unsigned char byte) const noexcept {
  const Node* const begin = nodes_.data() + node.first;
  const Node* const end = begin + node.count;
  const Node* const found = std::ranges::lower_bound(begin, end, byte, {}, &Node::byte);
  return found != end && found->byte == byte ? found : nullptr;
}

}  // namespace imex::inference
