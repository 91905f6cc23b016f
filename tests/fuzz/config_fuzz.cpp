// The text of a configuration file. Either all problems are named, or the values that are shown
// give the same configuration when they are read back.
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "domain/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::domain;
  if (size == 0) return 0;
  const auto personality = data[0] % 2 == 0 ? Personality::kImexd : Personality::kNvidiaImex;
  const auto loaded = parse_config(std::string(data + 1, data + size), "fuzz.cfg", personality);
  if (!loaded) {
    IMEX_ASSERT(!loaded.error().message.empty(), "a refusal says why");
    return 0;
  }
  std::string written;
  for (const ConfigValue& value : loaded->values) written += value.key + '=' + value.value + '\n';
  const auto again = parse_config(written, "again.cfg", personality);
  IMEX_ASSERT(again, "what is shown can be read back");
  for (std::size_t i = 0; i < loaded->values.size(); ++i) {
    IMEX_ASSERT(again->values[i].value == loaded->values[i].value, "and means the same");
  }
  return 0;
}
