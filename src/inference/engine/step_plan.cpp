#include "step_plan.hpp"

#include <cstring>
#include <type_traits>

namespace imex::inference {
namespace {

constexpr std::size_t kHeadWords = 6;

template <class T>
constexpr std::size_t words_of = sizeof(T) / sizeof(std::uint32_t);

template <class T>
void append(std::vector<std::uint32_t>& words, const std::vector<T>& items) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint32_t) == 0);
  const std::size_t at = words.size();
  words.resize(at + items.size() * words_of<T>);
  if (!items.empty()) std::memcpy(words.data() + at, items.data(), items.size() * sizeof(T));
}

template <class T>
bool take(std::span<const std::uint32_t>& words, std::size_t count, std::vector<T>& items) {
  if (words.size() / words_of<T> < count) return false;
  items.resize(count);
  if (count != 0) std::memcpy(static_cast<void*>(items.data()), words.data(), count * sizeof(T));
  words = words.subspan(count * words_of<T>);
  return true;
}

}  // namespace

void StepPlan::clear() noexcept {
  kind = Kind::kStep;
  sequence = 0;
  kept = 0;
  tables.clear();
  tokens.clear();
  options.clear();
}

void StepPlan::write(std::vector<std::uint32_t>& words) const {
  words.assign(
      {static_cast<std::uint32_t>(kind), sequence, kept, static_cast<std::uint32_t>(tables.size()),
       static_cast<std::uint32_t>(tokens.size()), static_cast<std::uint32_t>(options.size())});
  append(words, tables);
  append(words, tokens);
  append(words, options);
}

Result<void> StepPlan::read(std::span<const std::uint32_t> words) {
  clear();
  if (words.size() >= kHeadWords && words[0] <= static_cast<std::uint32_t>(Kind::kStop)) {
    kind = static_cast<Kind>(words[0]);
    sequence = words[1];
    kept = words[2];
    const auto head = words.first(kHeadWords);
    words = words.subspan(kHeadWords);
    if (take(words, head[3], tables) && take(words, head[4], tokens) &&
        take(words, head[5], options) && words.empty()) {
      return {};
    }
  }
  return fail(Errc::kInternal, "rank 0 sent words that are no plan of a step");
}

}  // namespace imex::inference
