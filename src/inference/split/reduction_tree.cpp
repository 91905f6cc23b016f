#include "inference/split/reduction_tree.hpp"

#include <algorithm>
#include <bit>

#include "base/assert.hpp"

namespace imex::inference {
namespace {

void collect(const Range& subtree, const Range& owned, std::vector<Range>& found) {
  if (owned.contains(subtree)) {
    found.push_back(subtree);
    return;
  }
  if (subtree.end <= owned.begin || owned.end <= subtree.begin) return;
  const std::uint32_t middle = middle_of(subtree);
  collect({subtree.begin, middle}, owned, found);
  collect({middle, subtree.end}, owned, found);
}

/// Walks the tree as far down as sums of single ranks and notes what to push and add.
struct Compiler {
  std::span<const Range> owned;
  std::vector<std::uint32_t> next_index;
  std::vector<TreeSum::Step> steps;
  std::uint32_t height = 0, depth = 0;

  void compile(const Range& subtree) {
    const auto rank =
        std::ranges::find_if(owned, [&](const Range& range) { return range.contains(subtree); });
    if (rank != owned.end()) {
      const auto number = static_cast<std::uint32_t>(rank - owned.begin());
      steps.push_back({number, next_index[number]++, 0});
      depth = std::max(depth, ++height);
      return;
    }
    const std::uint32_t middle = middle_of(subtree);
    compile({subtree.begin, middle});
    compile({middle, subtree.end});
    ++steps.back().additions;
    --height;
  }
};

}  // namespace

std::uint32_t middle_of(const Range& subtree) noexcept {
  IMEX_ASSERT(subtree.size() >= 2, "a leaf has no middle");
  return subtree.begin + std::bit_floor(subtree.size() - 1);
}

std::vector<Range> maximal_subtrees(std::uint32_t leaves, const Range& owned) {
  std::vector<Range> found;
  if (owned.size() != 0) collect({0, leaves}, owned, found);
  return found;
}

TreeSum::TreeSum(std::uint32_t leaves, std::span<const Range> owned) {
  Compiler compiler{owned, std::vector<std::uint32_t>(owned.size()), {}, 0, 0};
  compiler.compile({0, leaves});
  steps_ = std::move(compiler.steps);
  depth_ = compiler.depth;
}

}  // namespace imex::inference
