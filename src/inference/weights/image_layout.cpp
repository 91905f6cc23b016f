#include "image_layout.hpp"

#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstddef>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "inference/matrix/matrix.hpp"

namespace imex::inference {
namespace {

// Of each matrix: whole cache lines, and a page so that pages are not shared between matrices.
constexpr std::uint64_t kAlignment = 4096;
constexpr std::array<char, 8> kMagic{'I', 'M', 'E', 'X', 'P', 'A', 'C', 'K'};
static_assert(std::endian::native == std::endian::little);

std::uint64_t hash_of_layout(const ImageLayout& layout) {
  std::string text;
  for (const ImagePart& part : layout.parts) {
    text += fmt::format("{} {} {} {} {};", static_cast<unsigned>(part.place.role), part.place.layer,
                        static_cast<unsigned>(part.tensor->type), format_shape(part.tensor->shape),
                        part.offset);
  }
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

Result<ImageLayout> image_layout_of(const ModelFile& model) {
  ImageLayout layout;
  std::uint64_t offset = kImageDataOffset;
  for (WeightPlace place : model.places()) {
    // Rows of an embedding are looked up one by one where they lie; as a head it is multiplied.
    if (place.role == WeightRole::kEmbedding) {
      if (!model.parameters().tied_head) continue;
      place.role = WeightRole::kHead;
    }
    const Tensor& tensor = *model.weight(place);
    if (tensor.shape.size() != 2) continue;
    IMEX_TRY(const MatrixFormat format, matrix_format(tensor.type));
    if (!format.packed) continue;
    const std::uint64_t bytes = packed_bytes(tensor.type, tensor.shape[0], tensor.shape[1]);
    layout.parts.push_back({place, &tensor, offset, bytes});
    offset = (offset + bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (!layout.parts.empty()) layout.size = offset;
  return layout;
}

Result<ImageHeader> expected_header(const ImageLayout& layout, const std::string& source) {
  struct stat facts{};
  if (::stat(source.c_str(), &facts) != 0) {
    return fail(system_error(errno, fmt::format("'{}'", source)));
  }
  ImageHeader header;
  header.magic = kMagic;
  header.version = kImageVersion;
  header.parts = static_cast<std::uint32_t>(layout.parts.size());
  header.size = layout.size;
  header.layout_hash = hash_of_layout(layout);
  header.source_device = facts.st_dev;
  header.source_inode = facts.st_ino;
  header.source_size = static_cast<std::uint64_t>(facts.st_size);
  header.source_changed_ns = static_cast<std::uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000U +
                             static_cast<std::uint64_t>(facts.st_mtim.tv_nsec);
  return header;
}

ImageHeader sealed_header(ImageHeader header, std::uint64_t data_hash) noexcept {
  header.data_hash = data_hash;
  header.header_hash = XXH3_64bits(&header, offsetof(ImageHeader, header_hash));
  return header;
}

std::uint64_t hash_of_data(std::span<const std::byte> image) noexcept {
  const auto data = image.subspan(kImageDataOffset);
  return XXH3_64bits(data.data(), data.size());
}

}  // namespace imex::inference
