/// Which blocks of the cache are free. Rank 0 decides for all: every rank uses the same numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace imex::inference {

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks) {
    free_.reserve(blocks);
    for (std::uint32_t block = blocks; block-- > 0;) free_.push_back(block);
  }
  [[nodiscard]] std::uint32_t free() const noexcept {
    return static_cast<std::uint32_t>(free_.size());
  }
  [[nodiscard]] std::optional<std::uint32_t> take() noexcept {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(std::span<const std::uint32_t> blocks) noexcept {
    free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  }

 private:
  std::vector<std::uint32_t> free_;  // never grows beyond its first size
};

}  // namespace imex::inference
