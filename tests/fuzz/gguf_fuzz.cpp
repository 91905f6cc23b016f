// A GGUF file from anywhere: what parses has only views inside the file, and every value can be
// read and every weight dequantised.
#include <cstdint>
#include <span>

#include "base/assert.hpp"
#include "inference/format/dequantize.hpp"
#include "inference/format/gguf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::inference;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = GgufFile::parse(bytes);
  if (!file) return 0;
  std::size_t read = 0;
  for (const auto& [key, value] : file->metadata()) {
    if (const auto texts = file->texts(key)) read += texts->size();
    if (const auto floats = file->floats(key)) read += floats->size();
    if (const auto integers = file->integers(key)) read += integers->size();
  }
  for (const Tensor& tensor : file->tensors()) {
    IMEX_ASSERT(tensor.bytes.size() <= size, "tensors lie in the file");
    if (!layout_of(tensor.type).weight) continue;
    const TypeLayout& layout = layout_of(tensor.type);
    std::vector<float> values(tensor.bytes.size() / layout.block_bytes * layout.block_elements);
    dequantize(tensor.type, tensor.bytes, values);
    read += values.size();
  }
  IMEX_ASSERT(read <= 64 * size + 64, "no value comes from nothing");
  return 0;
}
