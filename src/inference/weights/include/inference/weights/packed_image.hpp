/// The quantised matrices of a model as kernels read them: packed once per machine into a file that
/// all ranks map. Bytes: docs/formats/packed-image.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inference/model/model_file.hpp"
#include "os/fd.hpp"
#include "os/memory.hpp"

namespace imex::inference {

/// `done` of `all` bytes; from one thread.
using PackProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

struct PackOptions {
  /// Where images are kept, made if missing; empty: nowhere, the image lives as long as its users.
  std::string directory;
  unsigned threads = 1;
  PackProgress progress;
};

/// Immutable. A fork()ed child may use its parent's.
class PackedImage {
 public:
  enum class Origin : std::uint8_t {
    kNone,    ///< this model has nothing to pack
    kCache,   ///< was there, and whole
    kBuilt,   ///< built and kept for the next time
    kMemory,  ///< built and not kept: see why()
  };

  /// `path`: the file that `model` was opened from. An image in the directory is taken if it was
  /// made from this very file (device, inode, size, time of change) and the checksum over all of it
  /// is right; one that is not is built anew. One that cannot be kept is no error. Threads are made
  /// while it builds. Errors: kResourceExhausted (memory), kNotFound.
  [[nodiscard]] static Result<PackedImage> open(const ModelFile& model, const std::string& path,
                                                const PackOptions& options);

  /// The packed bytes of a matrix; nothing if it is not packed.
  [[nodiscard]] std::optional<std::span<const std::byte>> find(const WeightPlace& place) const;

  [[nodiscard]] Origin origin() const noexcept { return origin_; }
  /// Why the image was not kept; empty otherwise.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  /// Bytes of the image.
  [[nodiscard]] std::uint64_t size() const noexcept { return mapping_.size(); }

 private:
  struct Part {
    WeightPlace place;
    std::uint64_t offset = 0, bytes = 0;
  };
  friend class ImageBuilder;

  std::vector<Part> parts_;  // in the order of the file
  os::Mapping mapping_;
  Origin origin_ = Origin::kNone;
  std::string why_;
};

}  // namespace imex::inference
