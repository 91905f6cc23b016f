/// safetensors: one file, or the shards that an index names. Mapped, never copied.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/format/tensor.hpp"
#include "os/memory.hpp"

namespace imex::inference {

/// Immutable after opening. Tensors' bytes live as long as it does and are aligned only as their
/// offsets happen to be. A file that is truncated while it is open turns reads beyond its new end
/// into SIGBUS, as in all mapped formats: replace models by renaming.
class SafetensorsFile {
 public:
  /// Errors: those of os::map_file and of parse().
  [[nodiscard]] static Result<SafetensorsFile> open(const std::string& path);
  /// Borrows `bytes`. Errors: kDataLoss (header, names that repeat, data with holes or overlaps),
  /// kUnsupported (element type, by name).
  [[nodiscard]] static Result<SafetensorsFile> parse(std::span<const std::byte> bytes);

  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept {
    return metadata_;
  }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }

 private:
  os::Mapping mapping_;  // empty for parse()
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t file_bytes_ = 0;
};

/// tensor -> file name, of model.safetensors.index.json. Errors: kDataLoss (also names that lead
/// out of the folder).
[[nodiscard]] Result<std::map<std::string, std::string>> parse_safetensors_index(
    std::string_view text);

/// model.safetensors of a folder, or all shards of its index: every one is there and holds what the
/// index says before this returns. Errors: kNotFound (names the missing shards), kInvalidArgument
/// (model.safetensors and an index that does not name it: which one is meant?), as above.
[[nodiscard]] Result<std::vector<SafetensorsFile>> open_safetensors_folder(
    const std::string& folder);
/// That file, or all shards where an index beside it names it as one of them. Errors: as above.
[[nodiscard]] Result<std::vector<SafetensorsFile>> open_safetensors_file(const std::string& path);

}  // namespace imex::inference
