#include "inference/weights/packed_image.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "image_layout.hpp"
#include "inference/matrix/matrix.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::inference {
namespace {

// Of one turn of a packing thread: large enough to cost nothing, small enough to share out.
constexpr std::uint64_t kTurnBytes = std::uint64_t{1} << 20U;

std::string image_name(const ImageHeader& header) {
  return fmt::format("{:x}-{:x}.packed", header.source_device, header.source_inode);
}

/// A range of tiles of one matrix.
struct Turn {
  const ImagePart* part = nullptr;
  std::uint64_t begin = 0, end = 0;
};

std::vector<Turn> turns_of(const ImageLayout& layout) {
  std::vector<Turn> turns;
  for (const ImagePart& part : layout.parts) {
    const std::uint64_t tiles = (part.tensor->shape[0] + kTileRows - 1) / kTileRows;
    const std::uint64_t tile_bytes = std::max<std::uint64_t>(1, part.bytes / tiles);
    const std::uint64_t step = std::max<std::uint64_t>(1, kTurnBytes / tile_bytes);
    for (std::uint64_t begin = 0; begin < tiles; begin += step) {
      turns.push_back({&part, begin, std::min(tiles, begin + step)});
    }
  }
  return turns;
}

void pack_all(const ImageLayout& layout, std::span<std::byte> image, const PackOptions& options) {
  const std::vector<Turn> turns = turns_of(layout);
  std::atomic<std::size_t> next{0};
  const auto work = [&](bool reports) {
    for (std::size_t at = next++; at < turns.size(); at = next++) {
      const Turn& turn = turns[at];
      const Tensor& tensor = *turn.part->tensor;
      pack_rows({tensor.type, tensor.shape[0], tensor.shape[1], tensor.bytes}, turn.begin, turn.end,
                image.subspan(turn.part->offset, turn.part->bytes));
      if (reports && options.progress) {
        options.progress(image.size() / turns.size() * at, image.size());
      }
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < options.threads; ++i) helpers.emplace_back(work, false);
  work(true);
  helpers.clear();
  if (options.progress) options.progress(image.size(), image.size());
}

}  // namespace

/// Finds or makes the image of one model.
class ImageBuilder {
 public:
  ImageBuilder(ImageLayout layout, ImageHeader expected, const PackOptions& options)
      : layout_(std::move(layout)), expected_(expected), options_(options) {
    for (const ImagePart& part : layout_.parts) {
      image_.parts_.push_back({part.place, part.offset, part.bytes});
    }
  }

  Result<PackedImage> run() && {
    if (layout_.size == 0) return std::move(image_);
    if (options_.directory.empty()) {
      image_.why_ = "no directory for it was given";
    } else if (auto kept = from_directory(); kept) {
      return std::move(image_);
    } else {
      image_.why_ = kept.error().message;
    }
    image_.origin_ = PackedImage::Origin::kMemory;
    IMEX_TRY(const os::UniqueFd file, os::make_memfd("imex-packed", layout_.size));
    IMEX_TRY(const auto writable, os::Mapping::map(file.get(), layout_.size));
    pack_all(layout_, writable.bytes(), options_);
    IMEX_CHECK_OK(map_to_read(file.get()));
    return std::move(image_);
  }

 private:
  Result<void> from_directory() {
    IMEX_CHECK_OK(os::make_directories(options_.directory, 0700));
    IMEX_CHECK_OK(os::check_own_directory(options_.directory));
    const std::string path = fmt::format("{}/{}", options_.directory, image_name(expected_));
    if (open_kept(path)) return {};
    return build(path);
  }

  /// Whatever is wrong with the file, it is built anew.
  bool open_kept(const std::string& path) {
    const os::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return false;
    const auto facts = os::file_facts(file.get());
    if (!facts || facts->size_bytes != layout_.size) return false;
    if (!map_to_read(file.get())) return false;
    const auto bytes = image_.mapping_.bytes();
    ImageHeader found;
    std::memcpy(&found, bytes.data(), sizeof found);
    if (found != sealed_header(expected_, hash_of_data(bytes))) return false;
    image_.origin_ = PackedImage::Origin::kCache;
    return true;
  }

  Result<void> build(const std::string& path) {
    const std::string temporary = fmt::format("{}.{}", path, ::getpid());
    os::remove_file(temporary);  // of a process of that number that was killed
    auto built = build_temporary(temporary);
    if (built) built = os::rename_file(temporary, path);
    if (!built) {
      os::remove_file(temporary);
      return built;
    }
    image_.origin_ = PackedImage::Origin::kBuilt;
    return {};
  }

  Result<void> build_temporary(const std::string& path) {
    // Pages are reserved, so that a full disk is an error here and no SIGBUS below.
    IMEX_TRY(const os::UniqueFd file, os::create_file(path, layout_.size));
    IMEX_TRY(const auto mapping, os::Mapping::map(file.get(), layout_.size));
    pack_all(layout_, mapping.bytes(), options_);
    const ImageHeader header = sealed_header(expected_, hash_of_data(mapping.bytes()));
    std::memcpy(mapping.data(), &header, sizeof header);
    return map_to_read(file.get());
  }

  /// Ranks must not be able to change each other's weights, not even by mistake.
  Result<void> map_to_read(int file) {
    IMEX_TRY(image_.mapping_,
             os::Mapping::map(file, layout_.size,
                              {.access = os::Mapping::Access::kRead, .populate = true}));
    return {};
  }

  ImageLayout layout_;
  ImageHeader expected_;
  const PackOptions& options_;
  PackedImage image_;
};

Result<PackedImage> PackedImage::open(const ModelFile& model, const std::string& path,
                                      const PackOptions& options) {
  IMEX_TRY(auto layout, image_layout_of(model));
  IMEX_TRY(const ImageHeader expected, expected_header(layout, path));
  return ImageBuilder(std::move(layout), expected, options).run();
}

std::optional<std::span<const std::byte>> PackedImage::find(const WeightPlace& place) const {
  const auto part = std::ranges::find(parts_, place, &Part::place);
  if (part == parts_.end()) return std::nullopt;
  return mapping_.bytes().subspan(part->offset, part->bytes);
}

}  // namespace imex::inference
