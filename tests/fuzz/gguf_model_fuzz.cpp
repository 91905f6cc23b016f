// A GGUF file from anywhere as a whole model: its numbers, the place of each weight and its
// tokenizer, which gives ids of the vocabulary for any text.
#include <cstdint>
#include <span>

#include "base/assert.hpp"
#include "gguf_tokenizer.hpp"
#include "inference/model/hyper_parameters.hpp"
#include "weight_table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::inference;
  const auto file = GgufFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) return 0;
  if (const auto tokenizer = gguf_tokenizer(*file)) {
    const auto ids = tokenizer->encode("Once upon\t12 </s> \xc3\xa9", {.parse_special = true});
    IMEX_ASSERT(ids && tokenizer->decode(*ids, false), "every id is in the vocabulary");
  }
  const auto parameters = hyper_parameters_of(*file);
  if (!parameters) return 0;
  IMEX_ASSERT(validate(*parameters), "what is read is valid");
  const auto table = assign_weights(file->tensors(), NamingScheme::kGguf, *parameters);
  if (!table) return 0;
  const auto places = weights_of(*parameters);
  IMEX_ASSERT(table->weights.size() == places.size(), "each weight has its tensor");
  for (std::size_t i = 0; i < places.size(); ++i) {
    IMEX_ASSERT(table->weights[i].shape == weight_shape(*parameters, places[i].role), "its shape");
  }
  return 0;
}
