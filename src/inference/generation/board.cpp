#include "board.hpp"

#include <algorithm>
#include <memory>
#include <new>

namespace imex::inference {
namespace {

constexpr std::size_t kPage = 4096;

void copy_text(const std::string& from, std::array<char, 512>& to) noexcept {
  to[from.copy(to.data(), to.size() - 1)] = 0;
}

/// Hands out pieces of a mapping, and counts what they take when there is none yet.
class Layout {
 public:
  explicit Layout(std::byte* begin) noexcept : begin_(begin) {}

  template <class T>
  T* take(std::size_t count) {
    at_ = (at_ + alignof(T) - 1) / alignof(T) * alignof(T);
    std::byte* const place = begin_ == nullptr ? nullptr : begin_ + at_;
    at_ += count * sizeof(T);
    if (place == nullptr) return nullptr;
    auto* const first = reinterpret_cast<T*>(place);
    std::uninitialized_value_construct_n(first, count);
    return first;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return (at_ + kPage - 1) / kPage * kPage; }

 private:
  std::byte* begin_;
  std::size_t at_ = 0;
};

}  // namespace

void BoardError::set(const Error& error) noexcept {
  code_ = error.code;
  rank_ = error.rank;
  copy_text(error.message, message_);
  copy_text(error.hint, hint_);
}

Error BoardError::get() const { return {code_, message_.data(), hint_.data(), rank_}; }

Result<Board> Board::create(std::uint32_t ranks, std::uint32_t context) {
  Board board;
  const auto lay_out = [&](std::byte* begin) {
    Layout layout(begin);
    board.head_ = layout.take<BoardHead>(1);
    board.ranks_ = layout.take<RankBoard>(ranks);
    board.prompt_ = {layout.take<std::uint32_t>(context), context};
    board.options_ = {layout.take<std::uint32_t>(kOptionWords), kOptionWords};
    board.tokens_ = {layout.take<GeneratedToken>(context), context};
    board.scores_ = {layout.take<double>(context), context};
    return layout.bytes();
  };
  const std::size_t bytes = lay_out(nullptr);
  IMEX_TRY(const os::UniqueFd memory, os::make_memfd("imex-generation", bytes));
  IMEX_TRY(board.memory_, os::Mapping::map(memory.get(), bytes));
  lay_out(board.memory_.data());
  return board;
}

}  // namespace imex::inference
