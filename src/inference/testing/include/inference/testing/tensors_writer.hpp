/// `.tensors` files as Tensorizer would write them, or as nobody should: for tests of the reader.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace imex::inference::testing {

struct WrittenTensor {
  std::string name{};
  std::vector<std::uint32_t> shape{};
  std::string data{};  ///< F32 elements; empty with a shape: metadata only
  std::string dtype{"<f4"};
};

struct TensorsForm {
  std::uint32_t version = 4;
  std::optional<std::array<unsigned char, 32>> key{};  ///< encrypts, in chunks of 64 KiB
};

/// Without hashes, which the format allows.
[[nodiscard]] std::string write_tensors(const std::vector<WrittenTensor>& tensors,
                                        const TensorsForm& form = {});

}  // namespace imex::inference::testing
