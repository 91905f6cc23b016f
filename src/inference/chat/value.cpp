#include "value.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace imex::inference {

namespace {

using JsonType = nlohmann::ordered_json::value_t;

/// Of an int or, as in Python, of a bool.
std::optional<std::int64_t> whole_of(const Value& value) noexcept {
  if (const auto* const flag = value.get_if<bool>()) return *flag ? 1 : 0;
  const auto* const whole = value.get_if<std::int64_t>();
  if (whole == nullptr) return std::nullopt;
  return *whole;
}

bool equal_lists(const List& left, const List& right, RenderBudget& budget, unsigned depth) {
  return left.size() == right.size() &&
         std::ranges::equal(left, right, [&](const Value& a, const Value& b) {
           return equal_values(a, b, budget, depth + 1);
         });
}

bool equal_dicts(const Dict& left, const Dict& right, RenderBudget& budget, unsigned depth) {
  return left.size() == right.size() && std::ranges::all_of(left, [&](const auto& entry) {
           if (!budget.walk(right.size())) return false;
           const Value* const same = find_key(right, entry.first);
           return same != nullptr && equal_values(entry.second, *same, budget, depth + 1);
         });
}

}  // namespace

Value Value::list(List items) {
  unsigned inside = 0;
  for (const Value& item : items) inside = std::max(inside, item.depth());
  return Value(std::make_shared<const Sequence>(Sequence{std::move(items), inside + 1}));
}

Value Value::dict(Dict items) {
  unsigned inside = 0;
  for (const auto& [key, item] : items) inside = std::max(inside, item.depth());
  return Value(std::make_shared<Mapping>(Mapping{std::move(items), inside + 1}));
}

Result<Value> Value::from_json(const nlohmann::ordered_json& json, unsigned depth) {
  if (depth > RenderBudget::kDepthMax) {
    return fail(Errc::kInvalidArgument, "a JSON value nested deeper than 100");
  }
  switch (json.type()) {
    case JsonType::boolean:
      return Value(json.get<bool>());
    case JsonType::number_unsigned:
      if (json.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
        return fail(Errc::kInvalidArgument,
                    fmt::format("a JSON number over {}: {}", INT64_MAX, json.get<std::uint64_t>()));
      }
      return Value(json.get<std::int64_t>());
    case JsonType::number_integer:
      return Value(json.get<std::int64_t>());
    case JsonType::number_float:
      return Value(json.get<double>());
    case JsonType::string:
      return Value(json.get<std::string>());
    case JsonType::array: {
      List items;
      for (const auto& item : json) {
        IMEX_TRY(Value value, from_json(item, depth + 1));
        items.push_back(std::move(value));
      }
      return list(std::move(items));
    }
    case JsonType::object: {
      Dict items;
      for (const auto& [key, item] : json.items()) {
        IMEX_TRY(Value value, from_json(item, depth + 1));
        items.emplace_back(key, std::move(value));
      }
      return dict(std::move(items));
    }
    default:
      return Value(None{});
  }
}

const List* Value::list_if() const noexcept {
  const auto* const shared = get_if<std::shared_ptr<const Sequence>>();
  return shared == nullptr ? nullptr : &(*shared)->items;
}

const Dict* Value::dict_if() const noexcept {
  const auto* const shared = get_if<std::shared_ptr<Mapping>>();
  return shared == nullptr ? nullptr : &(*shared)->items;
}

std::shared_ptr<Mapping> Value::mapping() const noexcept {
  const auto* const shared = get_if<std::shared_ptr<Mapping>>();
  return shared == nullptr ? nullptr : *shared;
}

unsigned Value::depth() const noexcept {
  if (const auto* const list = get_if<std::shared_ptr<const Sequence>>()) return (*list)->depth;
  if (const auto* const dict = get_if<std::shared_ptr<Mapping>>()) return (*dict)->depth;
  return 0;
}

std::size_t Value::made_bytes() const noexcept {
  if (const auto* const text = get_if<std::string>()) return sizeof(std::string) + text->size();
  if (const List* const items = list_if()) return sizeof(Sequence) + items->size() * sizeof(Value);
  if (const Dict* const items = dict_if()) {
    return sizeof(Mapping) + items->size() * sizeof(Dict::value_type);
  }
  return 0;
}

bool Value::number() const noexcept {
  return get_if<std::int64_t>() != nullptr || get_if<double>() != nullptr ||
         get_if<bool>() != nullptr;
}

double Value::as_double() const noexcept {
  if (const auto whole = whole_of(*this)) return static_cast<double>(*whole);
  const auto* const real = get_if<double>();
  return real == nullptr ? 0 : *real;
}

bool Value::truthy() const noexcept {
  if (number()) return as_double() != 0;
  if (const auto* const text = get_if<std::string>()) return !text->empty();
  if (const List* const items = list_if()) return !items->empty();
  if (const Dict* const items = dict_if()) return !items->empty();
  return get_if<Callable>() != nullptr;
}

std::string_view Value::type_name() const noexcept {
  constexpr std::string_view kNames[] = {"undefined", "none", "bool", "int",     "float",
                                         "string",    "list", "dict", "function"};
  return kNames[data_.index()];
}

const Value* find_key(const Dict& dict, std::string_view key) noexcept {
  const auto found = std::ranges::find(
      dict, key, [](const auto& entry) -> std::string_view { return entry.first; });
  return found == dict.end() ? nullptr : &found->second;
}

void set_key(Dict& dict, std::string key, Value value) {
  const auto found = std::ranges::find(
      dict, key, [](const auto& entry) -> const std::string& { return entry.first; });
  if (found != dict.end()) {
    found->second = std::move(value);
  } else {
    dict.emplace_back(std::move(key), std::move(value));
  }
}

int order_of(const Value& left, const Value& right) noexcept {
  const auto ordered = [](const auto& a, const auto& b) { return a < b ? -1 : b < a ? 1 : 0; };
  const auto whole_left = whole_of(left);
  const auto whole_right = whole_of(right);
  if (whole_left && whole_right) return ordered(*whole_left, *whole_right);
  if (left.number() && right.number()) return ordered(left.as_double(), right.as_double());
  const auto* const a = left.get_if<std::string>();
  const auto* const b = right.get_if<std::string>();
  return a == nullptr || b == nullptr ? kNoOrder : ordered(*a, *b);
}

bool equal_values(const Value& left, const Value& right, RenderBudget& budget, unsigned depth) {
  if (!budget.enter(depth)) return false;
  if (left.number() && right.number()) {
    const double a = left.as_double();
    const double b = right.as_double();
    return a == b && order_of(left, right) == 0;  // the first also says that NaN is not itself
  }
  const auto* const text = left.get_if<std::string>();
  const auto* const other_text = right.get_if<std::string>();
  if (text != nullptr && other_text != nullptr) {
    budget.search(std::min(text->size(), other_text->size()));
    return *text == *other_text;
  }
  const List* const items = left.list_if();
  const List* const others = right.list_if();
  if (items != nullptr && others != nullptr) return equal_lists(*items, *others, budget, depth);
  const Dict* const dict = left.dict_if();
  const Dict* const other_dict = right.dict_if();
  if (dict != nullptr && other_dict != nullptr) {
    return equal_dicts(*dict, *other_dict, budget, depth);
  }
  return (left.undefined() && right.undefined()) ||
         (left.get_if<None>() != nullptr && right.get_if<None>() != nullptr);
}

}  // namespace imex::inference
