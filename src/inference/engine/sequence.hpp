/// What every rank knows of a sequence: its tokens, and how the next one is drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "inference/sampling/sampler.hpp"
#include "step_plan.hpp"

namespace imex::inference {

class Sequence {
 public:
  void reserve(std::uint32_t context) { ids_.reserve(context); }
  /// Anew, with the first `kept` of its tokens.
  void begin(Sampler sampler, std::uint32_t kept) noexcept;

  [[nodiscard]] std::span<const std::uint32_t> ids() const noexcept { return ids_; }

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(ids_.size());
  }
  [[nodiscard]] Sampler& sampler() noexcept { return *sampler_; }
  /// For the token that follows; `number` tells sequences of one seed apart.
  [[nodiscard]] Progress progress(std::uint64_t number) const noexcept;

  /// Errors: kInternal when rank 0 goes on with a token that was not drawn here: the promise that
  /// all ranks draw the same was broken.
  [[nodiscard]] Result<void> add(const StepToken& token);
  void set_drawn(std::uint32_t token) noexcept;

 private:
  std::optional<Sampler> sampler_;
  std::vector<std::uint32_t> ids_;
  std::size_t prompt_size_ = 0;
  std::optional<std::uint32_t> drawn_;  // for the position after the last
};

}  // namespace imex::inference
