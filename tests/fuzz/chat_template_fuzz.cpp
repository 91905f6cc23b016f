// Any text as a chat template: it is refused or rendered within its bounds.
#include <cstdint>
#include <string_view>

#include "inference/chat/chat_template.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::inference;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  const auto made = ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (!made) return 0;
  ChatInput input;
  input.messages = {{"system", "s"}, {"user", "u"}};
  static_cast<void>(made->render(input));
  return 0;
}
