#include "inference/matrix/activations.hpp"

#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "kernels.hpp"

namespace imex::inference {

namespace {

constexpr std::size_t kLineFloats = 16;

std::size_t lines_of(std::size_t columns) { return (columns + kLineFloats - 1) / kLineFloats; }

}  // namespace

Activations::Activations(std::size_t tokens_max, std::size_t columns_max)
    : tokens_max_(tokens_max),
      columns_max_(columns_max),
      plain_(tokens_max * lines_of(columns_max)),
      blocks_(tokens_max * (columns_max / 32)) {}

std::size_t Activations::tile_width(std::size_t token, std::size_t tokens) noexcept {
  const std::size_t left = tokens - token;
  return left >= kTokenTile ? kTokenTile : std::bit_floor(left);
}

void Activations::set(std::span<const float> values, std::size_t tokens, std::size_t columns,
                      Form form) noexcept {
  IMEX_ASSERT(tokens <= tokens_max_ && columns <= columns_max_, "no more than there is room for");
  IMEX_ASSERT(values.size() == tokens * columns, "one value per token and column");
  tokens_ = tokens;
  columns_ = columns;
  plain_stride_ = lines_of(columns) * kLineFloats;
  form_ = form;
  if (has(Form::kPlain)) {
    for (std::size_t token = 0; token != tokens; ++token) {
      std::memcpy(plain_.data()->data() + token * plain_stride_, values.data() + token * columns,
                  columns * sizeof(float));
    }
  }
  if (has(Form::kPacked)) {
    const std::size_t blocks = columns / 32;
    const Kernels& use = kernels();
    for (std::size_t first = 0; first != tokens;) {
      const std::size_t width = tile_width(first, tokens);
      for (std::size_t i = 0; i != width; ++i) {
        use.round(values.data() + (first + i) * columns, blocks,
                  blocks_.data() + first * blocks + i, width);
      }
      first += width;
    }
  }
}

}  // namespace imex::inference
