/// GGUF files, version 3, little-endian: metadata and tensors, mapped and never copied.
///
///     IMEX_TRY(const auto file, GgufFile::open("model.gguf"));
///     IMEX_TRY(const auto layers, file.integer("llama.block_count"));
///     const Tensor* embedding = file.find_tensor("token_embd.weight");
///
/// All of the header is checked when the file is opened, at a cost linear in the header (2 ms for
/// 50,000 tokens): no view leaves the file as it was then, whatever was in it. The weights
/// themselves are not read. Who truncates the file while it is open turns reads beyond its new end
/// into SIGBUS: replace models by renaming.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "inference/format/tensor.hpp"
#include "os/memory.hpp"

namespace imex::inference {

/// Of values, numbered as in the file; tensors have types of their own.
enum class GgufType : std::uint8_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

/// Elements as they lie in the file, already checked to be whole.
struct GgufArray {
  GgufType element = GgufType::kU8;
  std::uint64_t count = 0;
  std::span<const std::byte> bytes;
};

/// Narrow integers and floats arrive widened, which loses nothing.
using GgufValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

/// Immutable after opening, so threads may share it. Views (strings, tensors' bytes) live as long
/// as the file object.
class GgufFile {
 public:
  /// Errors: those of os::map_file and of parse().
  [[nodiscard]] static Result<GgufFile> open(const std::string& path);
  /// Borrows `bytes`. Errors: kDataLoss (damaged or truncated), kUnsupported (version, byte order,
  /// type of a tensor: by name).
  [[nodiscard]] static Result<GgufFile> parse(std::span<const std::byte> bytes);

  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const Tensor* find_tensor(std::string_view name) const noexcept;

  [[nodiscard]] const std::map<std::string_view, GgufValue>& metadata() const noexcept {
    return metadata_;
  }
  [[nodiscard]] const GgufValue* find(std::string_view key) const noexcept;

  // One value of the kind that the caller needs. Errors: kNotFound (no such key), kDataLoss
  // (another kind; a negative number for integer()).
  [[nodiscard]] Result<std::uint64_t> integer(std::string_view key) const;
  [[nodiscard]] Result<double> number(std::string_view key) const;
  [[nodiscard]] Result<bool> flag(std::string_view key) const;
  [[nodiscard]] Result<std::string_view> text(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string_view>> texts(std::string_view key) const;
  [[nodiscard]] Result<std::vector<float>> floats(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::int32_t>> integers(std::string_view key) const;

 private:
  os::Mapping mapping_;  // empty for parse()
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;  // names lie in the file
};

}  // namespace imex::inference
