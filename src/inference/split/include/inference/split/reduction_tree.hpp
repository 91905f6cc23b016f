/// A fixed order of additions that does not know how many ranks there are.
///
/// The inputs of a product are cut into leaves that follow the model. Partial sums of leaves are
/// added along one binary tree, so the bits of the total are the same whoever computed which leaf.
/// A rank that owns a range of leaves hands over one sum for each maximal subtree in its range.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace imex::inference {

/// Numbers [begin, end).
struct Range {
  std::uint32_t begin = 0, end = 0;

  [[nodiscard]] constexpr std::uint32_t size() const noexcept { return end - begin; }
  [[nodiscard]] constexpr bool contains(const Range& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// Where a subtree of two or more leaves parts: the left one holds the largest power of two that is
/// smaller than all.
[[nodiscard]] std::uint32_t middle_of(const Range& subtree) noexcept;

/// The maximal subtrees of the tree over `leaves` leaves that lie in `owned`, from left to right;
/// at most 2 log2(leaves).
[[nodiscard]] std::vector<Range> maximal_subtrees(std::uint32_t leaves, const Range& owned);

/// Adds up the sums that the ranks handed over, in the order of the tree: a program for a machine
/// with a stack of vectors, made once.
class TreeSum {
 public:
  /// `owned[r]`: the leaves of rank r, ascending and without gaps, of all `leaves`.
  TreeSum(std::uint32_t leaves, std::span<const Range> owned);

  /// The next sum of a rank is pushed; then `additions` times the two uppermost become one.
  struct Step {
    std::uint32_t rank = 0;
    std::uint32_t index = 0;  ///< among the rank's maximal subtrees
    std::uint32_t additions = 0;
  };
  [[nodiscard]] std::span<const Step> steps() const noexcept { return steps_; }
  /// Vectors on the stack at once, at most.
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }

 private:
  std::vector<Step> steps_;
  std::uint32_t depth_ = 0;
};

}  // namespace imex::inference
