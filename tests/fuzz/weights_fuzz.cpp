// Bytes as each of the formats of weights: what parses has only views inside the file, and every
// record of a `.tensors` file can be asked for without harm.
#include <cstdint>
#include <span>
#include <string_view>

#include "base/assert.hpp"
#include "inference/format/llama2c.hpp"
#include "inference/format/safetensors.hpp"
#include "inference/format/tensors.hpp"

namespace {

using namespace imex::inference;

// What is only described, not stored, may be of any size.
constexpr std::uint64_t kReadMax = 1U << 20U;

void check(const Tensor& tensor, std::span<const std::byte> file) {
  if (tensor.bytes.empty()) return;
  IMEX_ASSERT(tensor.bytes.data() >= file.data() &&
                  tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
              "tensors lie in the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  static_cast<void>(parse_safetensors_index({reinterpret_cast<const char*>(data), size}));
  if (const auto file = SafetensorsFile::parse(bytes)) {
    for (const Tensor& tensor : file->tensors()) check(tensor, bytes);
  }
  if (const auto file = Llama2cFile::parse(bytes)) {
    for (const Tensor& tensor : file->tensors()) check(tensor, bytes);
  }
  const auto file = TensorsFile::parse(bytes);
  if (!file) return 0;
  const TensorsKey key(std::span<const std::byte, 32>(bytes.first<32>()));  // the front is 73 bytes
  for (const TensorsEntry& entry : file->entries()) {
    check(entry.tensor, bytes);
    if (entry.data_bytes > kReadMax) continue;
    std::vector<std::byte> out(entry.data_bytes);
    static_cast<void>(file->read(entry, file->encrypted() ? &key : nullptr, out));
  }
  return 0;
}
