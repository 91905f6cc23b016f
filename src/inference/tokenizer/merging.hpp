/// The heart of BPE: of all adjacent pairs that may merge, the best one first, the leftmost of
/// equals, until none is left. A list of symbols and a queue of pairs: O(n log n), also for a text
/// that is one piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace imex::inference {

/// A stretch of the text and the token it stands for.
struct Symbol {
  std::size_t begin = 0, bytes = 0;
  std::uint32_t id = 0;
};

/// What a pair becomes; lower `order` merges first.
struct Merge {
  double order = 0;
  std::uint32_t id = 0;
};

/// Merges `symbols` in place. `find(left, right)` gives a Merge or nothing.
template <class Find>
void merge_symbols(std::vector<Symbol>& symbols, Find find) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  struct Link {
    std::uint32_t before, after;
  };
  struct Candidate {
    double order;
    std::uint32_t left, right;
    std::size_t bytes;  // of both when it was queued: a change makes the entry stale
    std::uint32_t id;
    bool operator>(const Candidate& other) const noexcept {
      return order != other.order ? order > other.order : left > other.left;
    }
  };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  std::vector<Link> links(count);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::uint32_t left, std::uint32_t right) {
    if (left == kNone || right == kNone) return;
    if (const std::optional<Merge> merge = find(symbols[left], symbols[right])) {
      queue.push(
          {merge->order, left, right, symbols[left].bytes + symbols[right].bytes, merge->id});
    }
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    consider(links[i].before, i);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    // A symbol that was merged away has no bytes left.
    if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != best.bytes) continue;
    left.bytes = best.bytes;
    left.id = best.id;
    right.bytes = 0;
    links[best.left].after = links[best.right].after;
    if (links[best.left].after != kNone) links[links[best.left].after].before = best.left;
    consider(links[best.left].before, best.left);
    consider(best.left, links[best.left].after);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.bytes == 0; });
}

}  // namespace imex::inference
