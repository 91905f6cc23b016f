/// Writes files of weights, one tensor after the other: never more than one is in memory.
///
///     const std::vector<PlannedTensor> plan{{"lm_head.weight", TensorType::kF32, {2048, 128}}};
///     IMEX_CHECK_OK(write_tensors_file("new.tensors", plan, [&](std::size_t i, auto out) { ...
///     }));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "inference/format/tensor.hpp"
#include "inference/format/tensors.hpp"

namespace imex::inference {

struct PlannedTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> shape;
  TensorsEntry::Kind kind = TensorsEntry::Kind::kState;  ///< `.tensors` only, as the next one
  std::uint16_t module_index = 0;
};

/// Puts the data of plan[i] into `out`, which is as large as it. Called once for each, in order.
using ProduceTensor = std::function<Result<void>(std::size_t i, std::span<std::byte> out)>;

/// Tensorizer's format, unencrypted, byte for byte as Tensorizer writes it: version 1, or 2 where
/// an element type has no name in numpy; CRC-32 and SHA-256 in each record. `path` must not exist;
/// its bytes are on the disk when this returns, and after an error some may be left. Names are
/// plain. Errors: kAlreadyExists, kInvalidArgument (names, types or shapes that the format cannot
/// hold), kResourceExhausted (the disk is full, known before anything is written), those of
/// `produce`.
[[nodiscard]] Result<void> write_tensors_file(const std::string& path,
                                              std::span<const PlannedTensor> plan,
                                              const ProduceTensor& produce);

/// safetensors, data in the order of the plan and aligned to eight bytes at its start; otherwise as
/// above. {"format": "pt"} as metadata, without which some readers refuse a file.
[[nodiscard]] Result<void> write_safetensors_file(const std::string& path,
                                                  std::span<const PlannedTensor> plan,
                                                  const ProduceTensor& produce);

}  // namespace imex::inference
