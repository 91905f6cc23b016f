/// Products of weights and activations: where the time of inference goes.
///
/// Each output has the same bits whatever else is computed with it: other tokens of the batch,
/// their number and order, the range of rows. They depend on the range of columns and on the
/// instruction set. Of quantised weights every integer product is exact; float32 is rounded once
/// per scale.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "inference/matrix/activations.hpp"
#include "inference/matrix/matrix.hpp"

namespace imex::inference {

/// out[token * out_stride + row] = sum over columns of matrix[row, column] * in[token, column], for
/// all rows of the view and all tokens. Takes no memory and makes no system call.
void multiply(const MatrixView& matrix, const InputView& in, float* out,
              std::size_t out_stride) noexcept;

/// The instruction set in use, for the log of a start: "AVX-512 VNNI".
[[nodiscard]] std::string_view kernel_target() noexcept;

/// For tests and measurements: what this processor has, best first, and a way to choose. Not while
/// products run. Activations must be set again after it.
[[nodiscard]] std::vector<std::string_view> kernel_targets();
void use_kernel_target(std::string_view name) noexcept;

}  // namespace imex::inference
