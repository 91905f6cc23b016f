#include "vocabulary.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace imex::inference {

void Vocabulary::set(std::uint32_t id, std::string text, std::string output) {
  tokens_[id].text = std::move(text);
  tokens_[id].output = std::move(output);
}

std::size_t Vocabulary::slot_of(std::string_view text) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = std::hash<std::string_view>{}(text)&mask;
  while (slots_[at] != 0 && tokens_[slots_[at] - 1].text != text) at = (at + 1) & mask;
  return at;
}

void Vocabulary::grow() {
  std::vector<std::uint32_t> old = std::exchange(slots_, {});
  slots_.resize(std::max<std::size_t>(1024, old.size() * 2));
  for (const std::uint32_t entry : old) {
    if (entry != 0) slots_[slot_of(tokens_[entry - 1].text)] = entry;
  }
}

void Vocabulary::index(std::uint32_t id) {
  if (indexed_ * 2 >= slots_.size()) grow();
  const std::size_t at = slot_of(tokens_[id].text);
  if (slots_[at] != 0) return;
  slots_[at] = id + 1;
  ++indexed_;
  longest_ = std::max(longest_, tokens_[id].text.size());
}

std::optional<std::uint32_t> Vocabulary::find(std::string_view text) const noexcept {
  if (slots_.empty() || text.size() > longest_) return std::nullopt;
  const std::uint32_t entry = slots_[slot_of(text)];
  if (entry == 0) return std::nullopt;
  return entry - 1;
}

std::optional<std::uint32_t> Vocabulary::find_ordinary(std::string_view text) const noexcept {
  const auto id = find(text);
  return id && !special(*id) ? id : std::nullopt;
}

}  // namespace imex::inference
