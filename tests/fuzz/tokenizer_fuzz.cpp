// Bytes as each kind of tokenizer file, and what loads as a reader of the same bytes as text: every
// valid text gives ids of the vocabulary, and ids decode to valid text.
#include <cstdint>
#include <span>
#include <string_view>

#include "base/assert.hpp"
#include "inference/tokenizer/tokenizer.hpp"

namespace {

using namespace imex::inference;

void use(const imex::Result<Tokenizer>& tokenizer, std::string_view text) {
  if (!tokenizer) return;
  const auto ids =
      tokenizer->encode(text.substr(0, 2048), {.add_special = true, .parse_special = true});
  if (!ids) return;
  const auto decoded = tokenizer->decode(*ids, false);
  IMEX_ASSERT(decoded, "every id is in the vocabulary");
  IMEX_ASSERT(tokenizer->encode(*decoded), "decoded text is valid");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  use(read_tokenizer_json(text), text);
  use(read_llama2c_tokenizer(bytes, 300), text);
  return 0;
}
