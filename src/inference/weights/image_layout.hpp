/// Where each matrix lies in a packed image, and what the file says about itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "inference/model/model_file.hpp"

namespace imex::inference {

/// One matrix to pack.
struct ImagePart {
  WeightPlace place;
  const Tensor* tensor = nullptr;  ///< of the model
  std::uint64_t offset = 0, bytes = 0;
};

struct ImageLayout {
  std::vector<ImagePart> parts;
  std::uint64_t size = 0;  ///< of the file; 0: nothing to pack
};
/// Errors: kUnsupported (a type of weights without kernels).
[[nodiscard]] Result<ImageLayout> image_layout_of(const ModelFile& model);

/// First bytes of the file, little-endian; the rest up to kImageDataOffset is zero.
struct ImageHeader {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t parts = 0;
  std::uint64_t size = 0;
  std::uint64_t layout_hash = 0;  ///< XXH3 over place, type, shape and offset of all parts
  std::uint64_t source_device = 0, source_inode = 0, source_size = 0, source_changed_ns = 0;
  std::uint64_t data_hash = 0;    ///< XXH3 over everything after the header
  std::uint64_t header_hash = 0;  ///< XXH3 over all before it

  friend bool operator==(const ImageHeader&, const ImageHeader&) = default;
};
static_assert(sizeof(ImageHeader) == 80 && std::is_trivially_copyable_v<ImageHeader>);
inline constexpr std::uint64_t kImageDataOffset = 4096;
/// Of the packed forms in src/inference/matrix: a change of theirs is a change of this.
inline constexpr std::uint32_t kImageVersion = 1;

/// What the header of an image of this file must be, hash of the data and of the header not yet
/// known. Errors: as stat().
[[nodiscard]] Result<ImageHeader> expected_header(const ImageLayout& layout,
                                                  const std::string& source);
/// With the hashes filled in.
[[nodiscard]] ImageHeader sealed_header(ImageHeader header, std::uint64_t data_hash) noexcept;
/// Over everything after the header; reads all of it.
[[nodiscard]] std::uint64_t hash_of_data(std::span<const std::byte> image) noexcept;

}  // namespace imex::inference
