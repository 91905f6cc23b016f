#include "sequence.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"

namespace imex::inference {

void Sequence::begin(Sampler sampler, std::uint32_t kept) noexcept {
  IMEX_ASSERT(kept <= ids_.size(), "only what is there can be kept");
  sampler_ = std::move(sampler);
  ids_.resize(kept);
  prompt_size_ = 0;
  drawn_.reset();
}

Progress Sequence::progress(std::uint64_t number) const noexcept {
  const std::span<const std::uint32_t> ids(ids_);
  const std::size_t prompt = prompt_size_ == 0 ? ids.size() : prompt_size_;
  return {ids.first(prompt), ids.subspan(prompt), number, ids.size()};
}

Result<void> Sequence::add(const StepToken& token) {
  IMEX_ASSERT(token.position == ids_.size(), "a sequence grows at its end");
  if (drawn_ && *drawn_ != token.token) {
    return fail(Errc::kInternal, fmt::format("token {} was drawn here at position {}, {} on rank 0",
                                             *drawn_, token.position, token.token));
  }
  drawn_.reset();
  ids_.push_back(token.token);
  return {};
}

void Sequence::set_drawn(std::uint32_t token) noexcept {
  if (prompt_size_ == 0) prompt_size_ = ids_.size();
  drawn_ = token;
}

}  // namespace imex::inference
