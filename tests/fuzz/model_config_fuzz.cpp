// Text as each of the JSON files beside the weights: what is read of config.json is valid, with or
// without generation_config.json on top.
#include <cstdint>
#include <string_view>

#include "base/assert.hpp"
#include "inference/model/hyper_parameters.hpp"
#include "model_opener.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::inference;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(parse_chat_template(text));
  HyperParameters any;
  static_cast<void>(apply_generation_config(text, any));
  auto parameters = parse_config_json(text);
  if (!parameters) return 0;
  IMEX_ASSERT(validate(*parameters), "what is read is valid");
  IMEX_ASSERT(parameters->layer_count() <= 4096, "tables are small");
  if (apply_generation_config(text, *parameters)) {
    IMEX_ASSERT(validate(*parameters), "also with other tokens");
  }
  return 0;
}
