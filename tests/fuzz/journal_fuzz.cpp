// A journal file of unknown origin: it decodes to a state that survives compaction, or is refused.
#include <cstdint>
#include <span>

#include "base/assert.hpp"
#include "domain/journal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::domain;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::size_t used = 0;
  const auto state = decode_journal(bytes, &used);
  if (!state) return 0;
  IMEX_ASSERT(used >= kJournalHeaderBytes && used <= size, "the cut lies in the file");
  const auto compact = compact_journal(*state);
  const auto again = decode_journal(compact);
  IMEX_ASSERT(again && *again == *state, "compaction keeps the state");
  const auto same = decode_journal(bytes.first(used));
  IMEX_ASSERT(same && *same == *state, "what was cut carried nothing");
  return 0;
}
