#include "exchange/tick_board.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t page_up(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

constexpr std::size_t posts_at() { return page_up(sizeof(BoardHead)); }
std::size_t block_at(std::uint32_t ranks) { return posts_at() + page_up(ranks * sizeof(Post)); }

}  // namespace

Result<TickBoard> TickBoard::create(std::uint32_t ranks, std::size_t block_bytes) {
  const std::size_t bytes = block_at(ranks) + page_up(block_bytes);
  IMEX_TRY(const auto file, os::make_memfd("bench-board", bytes));
  IMEX_TRY(auto memory, os::Mapping::map(file.get(), bytes, {.populate = true}));
  return TickBoard(std::move(memory), ranks);  // zero is a fresh board
}

BoardHead& TickBoard::head() const noexcept {
  return *reinterpret_cast<BoardHead*>(memory_.data());
}

Post& TickBoard::post(std::uint32_t rank) const noexcept {
  return reinterpret_cast<Post*>(memory_.data() + posts_at())[rank];
}

std::span<std::byte> TickBoard::block() const noexcept {
  return memory_.bytes().subspan(block_at(ranks_));
}

}  // namespace imex::bench
