// JSON of requests: what is accepted is within the bounds and means the same when it is written and
// read again.
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "json/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const json::Limits limits{.bytes_max = 1U << 16U, .depth_max = 16, .values_max = 10'000};
  const auto value = json::parse(text, "input", limits);
  const auto plain = nlohmann::json::parse(text, nullptr, false);
  if (!value) {
    IMEX_ASSERT(!value.error().message.empty(), "a refusal says why");
    return 0;
  }
  IMEX_ASSERT(*value == plain, "the same value as of the plain parser");
  const auto again = json::parse(json::text_of(*value), "again", limits);
  IMEX_ASSERT(again || again.error().code == Errc::kResourceExhausted, "what is written is read");
  return 0;
}
