// The text of a node list, as another machine's hello or a broken editor may give it. What is
// accepted must come back the same when it is written again, and agree with itself by every rule.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "domain/node_list.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::domain;
  const std::string text(data, data + size);
  const auto list = parse_node_list(text);
  if (!list) {
    IMEX_ASSERT(!list.error().message.empty(), "a refusal says why");
    return 0;
  }
  std::string written;
  for (const NodeEntry& entry : list->entries) {
    IMEX_ASSERT(!entry.text.empty() && entry.text.size() <= 253, "entries are bounded");
    written += entry.text + '\n';
  }
  const auto again = parse_node_list(written);
  IMEX_ASSERT(again && *again == *list, "a list survives being written");
  IMEX_ASSERT(again->digest() == list->digest(), "the digest depends on the entries alone");
  IMEX_ASSERT(lists_agree(*list, *again, ListRule::kIdentical), "a list agrees with itself");
  NodeList shorter = *list;
  if (!shorter.entries.empty()) shorter.entries.pop_back();
  IMEX_ASSERT(lists_agree(*list, shorter, ListRule::kPrefix), "a list agrees with its beginning");
  return 0;
}
