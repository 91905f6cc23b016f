#include "partial_exchange.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace imex::inference {
namespace {

// Everybody reads everything: T - 1 vectors each. From this size on, and with more than two ranks,
// a reduction that moves two vectors per rank is faster.
constexpr std::uint64_t kReduceBytes = 32U << 10U;
constexpr std::uint64_t kSets = 2;
constexpr std::size_t kLineFloats = 16;

std::size_t stride_of(std::uint32_t width) noexcept {
  return (width + kLineFloats - 1) / kLineFloats * kLineFloats;
}

}  // namespace

SumOrder SumOrder::by_rank(std::uint32_t ranks) {
  SumOrder order;
  order.depth = ranks;
  return order;
}

SumOrder SumOrder::by_tree(std::uint32_t leaves, std::span<const Range> owned) {
  const TreeSum sum(leaves, owned);
  SumOrder order;
  order.tree = true;
  for (const Range& range : owned) {
    const auto sums = static_cast<std::uint32_t>(maximal_subtrees(leaves, range).size());
    order.sums_max = std::max(order.sums_max, sums);
  }
  order.steps.assign(sum.steps().begin(), sum.steps().end());
  order.depth = sum.depth();
  return order;
}

std::uint64_t PartialExchange::window_bytes(const Shape& shape) noexcept {
  return kSets * shape.sums * shape.rows * stride_of(shape.width) * sizeof(float);
}

Result<PartialExchange> PartialExchange::create(Rounds& rounds, const Shape& shape) {
  PartialExchange made(rounds);
  made.shape_ = shape;
  made.stride_ = stride_of(shape.width);
  IMEX_TRY(made.window_, rounds.allocate(window_bytes(shape)));
  made.terms_.resize(std::max(rounds.ranks(), shape.depth) + 1);
  made.stack_.resize(shape.depth * made.stride_);
  return made;
}

float* PartialExchange::part(std::uint32_t rank, std::uint32_t index) const noexcept {
  auto* const floats = reinterpret_cast<float*>(window_.of_rank[rank]);
  return floats + (set_ * shape_.sums + index) * shape_.rows * stride_;
}

float* PartialExchange::own(std::uint32_t index) noexcept {
  IMEX_DASSERT(index < shape_.sums, "as many sums as were announced");
  return part(rounds_->rank(), index);
}

Result<void> PartialExchange::run(const SumOrder& order, std::uint32_t rows) {
  order_ = &order;
  IMEX_CHECK_OK(rounds_->meet());
  const std::size_t floats = rows * stride_;
  reduced_ = rounds_->ranks() > 2 && !order.tree && floats * sizeof(float) >= kReduceBytes;
  if (!reduced_) return {};
  float* const total = own(0);
  return rounds_->communicator()->all_reduce(total, total, floats, DataType::kFloat32,
                                             ReduceOp::kSum);
}

std::span<const float* const> PartialExchange::terms(std::uint32_t row,
                                                     const float* last) noexcept {
  std::size_t count = 1;
  if (reduced_) {
    terms_[0] = own(0) + row * stride_;
  } else if (order_->tree) {
    sum_along_tree(row);
  } else {
    for (count = 0; count < rounds_->ranks(); ++count) {
      terms_[count] = part(static_cast<std::uint32_t>(count), 0) + row * stride_;
    }
  }
  if (last != nullptr) terms_[count++] = last;
  return {terms_.data(), count};
}

void PartialExchange::sum_along_tree(std::uint32_t row) noexcept {
  std::size_t height = 0;
  for (const TreeSum::Step& step : order_->steps) {
    terms_[height++] = part(step.rank, step.index) + row * stride_;
    for (std::uint32_t i = 0; i < step.additions; ++i) {
      const float* const right = terms_[--height];
      const float* const left = terms_[height - 1];
      // The sum takes the place of its left term, which may be the same memory.
      float* const sum = stack_.data() + (height - 1) * stride_;
      for (std::size_t at = 0; at < shape_.width; ++at) sum[at] = left[at] + right[at];
      terms_[height - 1] = sum;
    }
  }
  IMEX_DASSERT(height == 1, "a tree ends in one sum");
}

void PartialExchange::finish(ExchangeTimes& times) noexcept {
  rounds_->finish(times);
  set_ = (set_ + 1) % kSets;
}

}  // namespace imex::inference
