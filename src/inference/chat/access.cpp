// What is inside a value: elements, entries, characters.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "builtins.hpp"
#include "strings.hpp"
#include "value_text.hpp"

namespace imex::inference {

namespace {

tl::unexpected<Error> no_access(std::string message) {
  return fail(Errc::kInvalidArgument, std::move(message));
}

}  // namespace

Result<List> elements(const Value& value, RenderBudget& budget) {
  List out;
  if (const List* const items = value.list_if()) {
    if (budget.make(items->size() * sizeof(Value))) out = *items;
    return out;
  }
  if (const Dict* const dict = value.dict_if()) {
    for (const auto& [key, item] : *dict) {
      if (!budget.make(kTextBytes + key.size())) break;
      out.emplace_back(key);
    }
    return out;
  }
  if (const auto* const text = value.get_if<std::string>()) {
    for (std::size_t at = 0; at < text->size() && budget.make(kTextBytes);) {
      const std::string_view character = character_at(*text, at);
      out.emplace_back(std::string(character));
      at += character.size();
    }
    return out;
  }
  if (value.undefined()) return out;
  return no_access(fmt::format("a value of type {} has no elements", value.type_name()));
}

Result<bool> contains(const Value& whole, const Value& part, RenderBudget& budget) {
  if (const auto* const text = whole.get_if<std::string>()) {
    const auto* const wanted = part.get_if<std::string>();
    if (wanted == nullptr) {
      return no_access(fmt::format("a value of type {} asked for in a string", part.type_name()));
    }
    budget.search(text->size());
    return find_text(*text, *wanted) != std::string::npos;
  }
  if (const Dict* const dict = whole.dict_if()) {
    budget.walk(dict->size());
    const auto* const key = part.get_if<std::string>();
    return key != nullptr && find_key(*dict, *key) != nullptr;
  }
  IMEX_TRY(const List items, elements(whole, budget));
  return std::ranges::any_of(items,
                             [&](const Value& item) { return equal_values(item, part, budget); });
}

Result<Value> lookup(const Value& value, const Value& key, RenderBudget& budget) {
  if (value.undefined())
    return no_access(fmt::format("{} of an undefined value", repr_of(key, budget)));
  if (const Dict* const dict = value.dict_if()) {
    budget.walk(dict->size());
    const auto* const name = key.get_if<std::string>();
    const Value* const found = name == nullptr ? nullptr : find_key(*dict, *name);
    return found == nullptr ? Value() : *found;
  }
  const auto* const index = key.get_if<std::int64_t>();
  if (index == nullptr) return Value();
  const auto place = [&](std::size_t count) -> std::optional<std::size_t> {
    const auto size = static_cast<std::int64_t>(count);
    const std::int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return std::nullopt;
    return static_cast<std::size_t>(at);
  };
  if (const List* const items = value.list_if()) {
    const auto at = place(items->size());
    return at ? (*items)[*at] : Value();
  }
  const auto* const text = value.get_if<std::string>();
  if (text == nullptr) return Value();
  budget.search(text->size());
  auto left = place(count_characters(*text));
  if (!left) return Value();
  std::size_t at = 0;
  for (; *left != 0; --*left) at += character_at(*text, at).size();
  return Value(std::string(character_at(*text, at)));
}

}  // namespace imex::inference
