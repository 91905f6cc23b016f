#include "builtins.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "strings.hpp"

namespace imex::inference {

namespace {

using Chars = std::string_view;

tl::unexpected<Error> wrong(std::string message) {
  return fail(Errc::kInvalidArgument, std::move(message));
}

Result<std::string> text_argument(const Arguments& arguments, std::size_t index, Chars name) {
  const Value* const value = arguments.get(index, name);
  const auto* const text = value == nullptr ? nullptr : value->get_if<std::string>();
  if (text == nullptr) return wrong(fmt::format("'{}' must be a string", name));
  return *text;
}

Result<std::int64_t> integer_argument(const Arguments& arguments, std::size_t index, Chars name,
                                      std::int64_t missing) {
  const Value* const value = arguments.get(index, name);
  if (value == nullptr) return missing;
  const auto* const number = value->get_if<std::int64_t>();
  if (number == nullptr) return wrong(fmt::format("'{}' must be a whole number", name));
  return *number;
}

}  // namespace

Result<List> elements(const Value& value) {
  if (const List* const items = value.list_if()) return *items;
  List out;
  if (const Dict* const dict = value.dict_if()) {
    for (const auto& [key, item] : *dict) out.emplace_back(key);
    return out;
  }
  if (const auto* const text = value.get_if<std::string>()) {
    for (const Chars character : characters(*text)) out.emplace_back(std::string(character));
    return out;
  }
  if (value.undefined()) return out;
  return wrong(fmt::format("a value of type {} has no elements", value.type_name()));
}

namespace {

using Filter = Result<Value> (*)(const Value&, const Arguments&);
struct NamedFilter {
  Chars name;
  Filter apply;
};

Result<Value> filter_length(const Value& value, const Arguments&) {
  if (const auto* const text = value.get_if<std::string>()) {
    return Value(static_cast<std::int64_t>(characters(*text).size()));
  }
  if (const Dict* const dict = value.dict_if())
    return Value(static_cast<std::int64_t>(dict->size()));
  IMEX_TRY(const List items, elements(value));
  return Value(static_cast<std::int64_t>(items.size()));
}

Result<Value> filter_trim(const Value& value, const Arguments& arguments) {
  if (arguments.get(0, "chars") == nullptr) return Value(strip(value.text(), {}, true, true));
  IMEX_TRY(const auto chars, text_argument(arguments, 0, "chars"));
  return Value(strip(value.text(), chars, true, true));
}

Result<Value> filter_tojson(const Value& value, const Arguments& arguments) {
  IMEX_TRY(const auto indent, integer_argument(arguments, 0, "indent", -1));
  if (indent > 16) return wrong("an indent of more than 16");
  return Value(to_json(value, static_cast<int>(std::max<std::int64_t>(indent, -1))));
}

Result<Value> filter_default(const Value& value, const Arguments& arguments) {
  const Value* const falsy_too = arguments.get(1, "boolean");
  const bool replaced =
      value.undefined() || (falsy_too != nullptr && falsy_too->truthy() && !value.truthy());
  if (!replaced) return value;
  const Value* const other = arguments.get(0, "default_value");
  return other == nullptr ? Value(std::string()) : *other;
}

Result<Value> filter_join(const Value& value, const Arguments& arguments) {
  IMEX_TRY(const List items, elements(value));
  const Value* const given = arguments.get(0, "d");
  const std::string between = given == nullptr ? "" : given->text();
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += (i == 0 ? "" : between) + items[i].text();
    if (out.size() > kTemplateTextBytesMax)
      return fail(Errc::kResourceExhausted, "a text over 16 MiB");
  }
  return Value(std::move(out));
}

Result<Value> filter_replace(const Value& value, const Arguments& arguments) {
  return call_method("replace", Value(value.text()), arguments);
}

Result<Value> filter_first(const Value& value, const Arguments&) {
  IMEX_TRY(const List items, elements(value));
  return items.empty() ? Value() : items.front();
}

Result<Value> filter_last(const Value& value, const Arguments&) {
  IMEX_TRY(const List items, elements(value));
  return items.empty() ? Value() : items.back();
}

Result<Value> filter_list(const Value& value, const Arguments&) {
  IMEX_TRY(List items, elements(value));
  return Value::list(std::move(items));
}

Result<Value> filter_reverse(const Value& value, const Arguments&) {
  IMEX_TRY(List items, elements(value));
  std::ranges::reverse(items);
  return Value::list(std::move(items));
}

Result<Value> filter_int(const Value& value, const Arguments& arguments) {
  if (value.number()) return Value(static_cast<std::int64_t>(value.as_double()));
  if (const auto number = parse_integer_text(value.text())) return Value(*number);
  IMEX_TRY(const auto missing, integer_argument(arguments, 0, "default", 0));
  return Value(missing);
}

Result<Value> filter_items(const Value& value, const Arguments& arguments) {
  return call_method("items", value, arguments);
}

Result<Value> filter_map(const Value& value, const Arguments& arguments) {
  IMEX_TRY(const List items, elements(value));
  const Value* const attribute = arguments.get(SIZE_MAX, "attribute");
  List out;
  if (attribute == nullptr) {
    IMEX_TRY(const auto name, text_argument(arguments, 0, "filter"));
    if (!is_known_filter(name))
      return fail(Errc::kUnsupported, fmt::format("unknown filter '{}'", name));
    for (const Value& item : items) {
      IMEX_TRY(Value mapped, apply_filter(name, item, {}));
      out.push_back(std::move(mapped));
    }
    return Value::list(std::move(out));
  }
  for (const Value& item : items) {
    IMEX_TRY(Value found, lookup(item, *attribute));
    out.push_back(std::move(found));
  }
  return Value::list(std::move(out));
}

/// selectattr and rejectattr: (attribute, test, argument), or only truth of the attribute.
Result<Value> select_by(const Value& value, const Arguments& arguments, bool keep) {
  IMEX_TRY(const List items, elements(value));
  IMEX_TRY(const auto attribute, text_argument(arguments, 0, "attribute"));
  std::string test;
  if (arguments.positional.size() > 1) {
    IMEX_TRY(test, text_argument(arguments, 1, "test"));
    if (!is_known_test(test))
      return fail(Errc::kUnsupported, fmt::format("unknown test '{}'", test));
  }
  Arguments rest;
  if (arguments.positional.size() > 2) rest.positional.push_back(arguments.positional[2]);
  List out;
  for (const Value& item : items) {
    IMEX_TRY(const Value found, lookup(item, Value(attribute)));
    bool good = found.truthy();
    if (!test.empty()) {
      IMEX_TRY(good, apply_test(test, found, rest));
    }
    if (good == keep) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Result<Value> filter_selectattr(const Value& value, const Arguments& arguments) {
  return select_by(value, arguments, true);
}
Result<Value> filter_rejectattr(const Value& value, const Arguments& arguments) {
  return select_by(value, arguments, false);
}

Result<Value> filter_indent(const Value& value, const Arguments& arguments) {
  IMEX_TRY(const auto width, integer_argument(arguments, 0, "width", 4));
  const Value* const first = arguments.get(1, "first");
  if (width < 0 || width > 64) return wrong("an indent that is not from 0 to 64");
  return Value(
      indent(value.text(), static_cast<std::size_t>(width), first != nullptr && first->truthy()));
}

Result<Value> filter_upper(const Value& value, const Arguments&) {
  return Value(upper(value.text()));
}
Result<Value> filter_lower(const Value& value, const Arguments&) {
  return Value(lower(value.text()));
}
Result<Value> filter_capitalize(const Value& value, const Arguments&) {
  return Value(capitalize(value.text()));
}
Result<Value> filter_string(const Value& value, const Arguments&) { return Value(value.text()); }
Result<Value> filter_safe(const Value& value, const Arguments&) { return value; }

constexpr std::array kFilters{
    NamedFilter{"capitalize", filter_capitalize},
    NamedFilter{"count", filter_length},
    NamedFilter{"d", filter_default},
    NamedFilter{"default", filter_default},
    NamedFilter{"first", filter_first},
    NamedFilter{"indent", filter_indent},
    NamedFilter{"int", filter_int},
    NamedFilter{"items", filter_items},
    NamedFilter{"join", filter_join},
    NamedFilter{"last", filter_last},
    NamedFilter{"length", filter_length},
    NamedFilter{"list", filter_list},
    NamedFilter{"lower", filter_lower},
    NamedFilter{"map", filter_map},
    NamedFilter{"rejectattr", filter_rejectattr},
    NamedFilter{"replace", filter_replace},
    NamedFilter{"reverse", filter_reverse},
    NamedFilter{"safe", filter_safe},
    NamedFilter{"selectattr", filter_selectattr},
    NamedFilter{"string", filter_string},
    NamedFilter{"tojson", filter_tojson},
    NamedFilter{"trim", filter_trim},
    NamedFilter{"upper", filter_upper},
};

constexpr std::array<Chars, 20> kTests{
    "defined", "undefined", "none",     "string",   "number", "integer",    "float",
    "boolean", "mapping",   "iterable", "sequence", "true",   "false",      "odd",
    "even",    "eq",        "equalto",  "ne",       "in",     "divisibleby"};

constexpr std::array<Chars, 4> kFunctions{"range", "namespace", "raise_exception", "strftime_now"};
constexpr std::size_t kRangeMax = 100'000;

Result<bool> test_number(Chars name, const Value& value, const Arguments& arguments) {
  const auto* const number = value.get_if<std::int64_t>();
  if (number == nullptr) return wrong(fmt::format("'{}' asked of {}", name, value.type_name()));
  if (name == "odd") return *number % 2 != 0;
  if (name == "even") return *number % 2 == 0;
  IMEX_TRY(const auto divisor, integer_argument(arguments, 0, "num", 0));
  if (divisor == 0 || divisor == -1)
    return wrong("divisibleby needs a divisor other than 0 and -1");
  return *number % divisor == 0;
}

}  // namespace

const Value* Arguments::get(std::size_t index, std::string_view name) const noexcept {
  if (index < positional.size()) return &positional[index];
  const auto found =
      std::ranges::find(named, name, [](const auto& entry) -> Chars { return entry.first; });
  return found == named.end() ? nullptr : &found->second;
}

bool is_known_filter(std::string_view name) noexcept {
  return std::ranges::find(kFilters, name, &NamedFilter::name) != kFilters.end();
}
bool is_known_test(std::string_view name) noexcept {
  return std::ranges::find(kTests, name) != kTests.end();
}

Value find_function(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kFunctions, name);
  return found == kFunctions.end() ? Value()
                                   : Value(Callable{.macro = nullptr, .function = *found});
}

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  return std::ranges::find(kFilters, name, &NamedFilter::name)->apply(value, arguments);
}

Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto* const flag = value.get_if<bool>();
  const bool text = value.get_if<std::string>() != nullptr;
  if (name == "defined") return !value.undefined();
  if (name == "undefined") return value.undefined();
  if (name == "none") return value.get_if<None>() != nullptr;
  if (name == "string") return text;
  if (name == "number") return value.number();
  if (name == "integer") return value.get_if<std::int64_t>() != nullptr;
  if (name == "float") return value.get_if<double>() != nullptr;
  if (name == "boolean") return flag != nullptr;
  if (name == "true") return flag != nullptr && *flag;
  if (name == "false") return flag != nullptr && !*flag;
  if (name == "mapping") return value.dict_if() != nullptr;
  if (name == "iterable" || name == "sequence") {
    return text || value.list_if() != nullptr || value.dict_if() != nullptr;
  }
  if (name == "odd" || name == "even" || name == "divisibleby")
    return test_number(name, value, arguments);
  const Value* const other = arguments.get(0, "other");
  if (other == nullptr) return wrong(fmt::format("test '{}' needs a value to compare with", name));
  if (name == "in") {
    IMEX_TRY(const List items, elements(*other));
    return std::ranges::any_of(items, [&](const Value& item) { return item.equals(value); });
  }
  return value.equals(*other) != (name == "ne");
}

Result<Value> call_function(std::string_view name, const Arguments& arguments,
                            std::chrono::system_clock::time_point now) {
  if (name == "raise_exception") {
    IMEX_TRY(const auto message, text_argument(arguments, 0, "message"));
    return wrong(fmt::format("the template says: {}", message));
  }
  if (name == "namespace") return Value::dict(arguments.named);
  if (name == "strftime_now") {
    IMEX_TRY(const auto format, text_argument(arguments, 0, "format"));
    return format_time(format, now);
  }
  IMEX_TRY(const auto first, integer_argument(arguments, 0, "start", 0));
  const bool only_end = arguments.positional.size() < 2;
  IMEX_TRY(const auto second, integer_argument(arguments, 1, "stop", first));
  IMEX_TRY(const auto step, integer_argument(arguments, 2, "step", 1));
  constexpr std::int64_t kFar = std::int64_t{1} << 40U;
  const std::int64_t begin = only_end ? 0 : first;
  if (step == 0 || std::abs(begin) > kFar || std::abs(second) > kFar || std::abs(step) > kFar) {
    return wrong("a range without end");
  }
  List items;
  for (std::int64_t i = begin; step > 0 ? i < second : i > second; i += step) {
    if (items.size() == kRangeMax) return wrong(fmt::format("a range of more than {}", kRangeMax));
    items.emplace_back(i);
  }
  return Value::list(std::move(items));
}

Result<Value> lookup(const Value& value, const Value& key) {
  if (value.undefined()) return wrong(fmt::format("{} of an undefined value", key.repr()));
  if (const Dict* const dict = value.dict_if()) {
    const auto* const name = key.get_if<std::string>();
    const Value* const found = name == nullptr ? nullptr : find_key(*dict, *name);
    return found == nullptr ? Value() : *found;
  }
  const auto* const index = key.get_if<std::int64_t>();
  if (index == nullptr) return Value();
  const auto pick = [&](const auto& items, auto to_value) {
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t at = *index < 0 ? *index + size : *index;
    return at < 0 || at >= size ? Value() : to_value(items[static_cast<std::size_t>(at)]);
  };
  if (const List* const items = value.list_if())
    return pick(*items, [](const Value& one) { return one; });
  const auto* const text = value.get_if<std::string>();
  if (text == nullptr) return Value();
  return pick(characters(*text), [](Chars one) { return Value(std::string(one)); });
}

}  // namespace imex::inference
