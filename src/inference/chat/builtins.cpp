#include "builtins.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "strings.hpp"
#include "value_text.hpp"

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

using Filter = Result<Value> (*)(const Value&, const Arguments&, RenderBudget&);
struct NamedFilter {
  Chars name;
  Filter apply;
  Chars arguments = {};  ///< their names in order, a blank between; "*name" is only ever named
};

Result<Value> filter_length(const Value& value, const Arguments&, RenderBudget& budget) {
  if (const auto* const text = value.get_if<std::string>()) {
    budget.search(text->size());
    return Value(static_cast<std::int64_t>(count_characters(*text)));
  }
  if (const Dict* const dict = value.dict_if())
    return Value(static_cast<std::int64_t>(dict->size()));
  if (const List* const list = value.list_if())
    return Value(static_cast<std::int64_t>(list->size()));
  IMEX_TRY(const List items, elements(value, budget));  // of an undefined value; else an error
  return Value(static_cast<std::int64_t>(items.size()));
}

Result<Value> filter_trim(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  const Value* const chars = arguments.get(0, "chars");
  const std::string text = text_of(value, budget);
  if (chars == nullptr || chars->get_if<None>() != nullptr)
    return Value(std::string(strip(text, std::nullopt, true, true)));
  IMEX_TRY(const auto given, text_argument(arguments, 0, "chars"));
  return Value(std::string(strip(text, given, true, true)));
}

Result<void> read_separators(const Value& given, JsonStyle& style) {
  const List* const pair = given.list_if();
  const bool two = pair != nullptr && pair->size() == 2;
  const auto* const between = two ? pair->front().get_if<std::string>() : nullptr;
  const auto* const after_key = two ? pair->back().get_if<std::string>() : nullptr;
  if (between == nullptr || after_key == nullptr) return wrong("'separators' must be two strings");
  style.between = *between;
  style.after_key = *after_key;
  return {};
}

/// The arguments of transformers, whose order is not that of Jinja's own filter.
Result<Value> filter_tojson(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  const auto given = [&](std::size_t index, Chars name) {
    const Value* const found = arguments.get(index, name);
    return found == nullptr || found->get_if<None>() != nullptr ? nullptr : found;
  };
  JsonStyle style;
  if (const Value* const ascii = given(0, "ensure_ascii")) style.ascii = ascii->truthy();
  if (given(1, "indent") != nullptr) {
    IMEX_TRY(const auto indent, integer_argument(arguments, 1, "indent", 0));
    if (indent > 16) return wrong("an indent of more than 16");
    style.indent = static_cast<int>(std::max<std::int64_t>(indent, 0));
    style.between = ",";
  }
  if (const Value* const separators = given(2, "separators")) {
    IMEX_CHECK_OK(read_separators(*separators, style));
  }
  if (const Value* const sorted = given(3, "sort_keys")) style.sort_keys = sorted->truthy();
  IMEX_TRY(std::string text, json_of(value, style, budget));
  return Value(std::move(text));
}

Result<Value> filter_default(const Value& value, const Arguments& arguments,
                             RenderBudget& /*budget*/) {
  const Value* const falsy_too = arguments.get(1, "boolean");
  const bool replaced =
      value.undefined() || (falsy_too != nullptr && falsy_too->truthy() && !value.truthy());
  if (!replaced) return value;
  const Value* const other = arguments.get(0, "default_value");
  return other == nullptr ? Value(std::string()) : *other;
}

Result<Value> filter_join(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  IMEX_TRY(const List items, elements(value, budget));
  const Value* const given = arguments.get(0, "d");
  const std::string between = given == nullptr ? "" : text_of(*given, budget);
  std::string out;
  for (std::size_t i = 0; i < items.size() && !budget.spent(); ++i) {
    out += (i == 0 ? "" : between) + text_of(items[i], budget);
    if (out.size() > kTemplateTextBytesMax)
      return fail(Errc::kResourceExhausted, "a text over 16 MiB");
  }
  return Value(std::move(out));
}

Result<Value> filter_replace(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  return call_method("replace", Value(text_of(value, budget)), arguments, budget);
}

/// The element at one end, without making the others.
Result<Value> end_of(const Value& value, bool first) {
  if (const List* const items = value.list_if()) {
    return items->empty() ? Value() : first ? items->front() : items->back();
  }
  if (const Dict* const dict = value.dict_if()) {
    return dict->empty() ? Value() : Value(first ? dict->front().first : dict->back().first);
  }
  if (value.undefined()) return Value();
  const auto* const text = value.get_if<std::string>();
  if (text == nullptr)
    return wrong(fmt::format("a value of type {} has no elements", value.type_name()));
  if (text->empty()) return Value();
  return Value(std::string(first ? character_at(*text, 0) : last_character(*text)));
}

Result<Value> filter_first(const Value& value, const Arguments&, RenderBudget&) {
  return end_of(value, true);
}
Result<Value> filter_last(const Value& value, const Arguments&, RenderBudget&) {
  return end_of(value, false);
}

Result<Value> filter_list(const Value& value, const Arguments&, RenderBudget& budget) {
  IMEX_TRY(List items, elements(value, budget));
  return Value::list(std::move(items));
}

Result<Value> filter_reverse(const Value& value, const Arguments&, RenderBudget& budget) {
  IMEX_TRY(List items, elements(value, budget));
  std::ranges::reverse(items);
  return Value::list(std::move(items));
}

Result<Value> filter_int(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  if (const auto* const whole = value.get_if<std::int64_t>()) return Value(*whole);
  if (value.number()) {
    IMEX_TRY(const auto whole, truncated(value.as_double()));
    return Value(whole);
  }
  const std::string text = text_of(value, budget);
  IMEX_TRY(const auto number, parse_integer_text(text));
  if (number) return Value(*number);
  const Chars bare = bare_number(text);
  double real = 0;
  const auto end = std::from_chars(bare.data(), bare.data() + bare.size(), real);
  if (end.ec == std::errc{} && end.ptr == bare.data() + bare.size()) {
    if (const auto whole = truncated(real)) return Value(*whole);
  }
  IMEX_TRY(const auto missing, integer_argument(arguments, 0, "default", 0));
  return Value(missing);
}

Result<Value> filter_items(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  return call_method("items", value, arguments, budget);
}

Result<Value> filter_map(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  IMEX_TRY(const List items, elements(value, budget));
  const Value* const attribute = arguments.get(SIZE_MAX, "attribute");
  List out;
  if (attribute == nullptr) {
    IMEX_TRY(const auto name, text_argument(arguments, 0, "filter"));
    if (!is_known_filter(name))
      return fail(Errc::kUnsupported, fmt::format("unknown filter '{}'", name));
    for (const Value& item : items) {
      if (!budget.step()) break;
      IMEX_TRY(Value mapped, apply_filter(name, item, {}, budget));
      out.push_back(std::move(mapped));
    }
    return Value::list(std::move(out));
  }
  for (const Value& item : items) {
    if (!budget.step()) break;
    IMEX_TRY(Value found, lookup(item, *attribute, budget));
    out.push_back(std::move(found));
  }
  return Value::list(std::move(out));
}

/// selectattr and rejectattr: (attribute, test, argument), or only truth of the attribute.
Result<Value> select_by(const Value& value, const Arguments& arguments, bool keep,
                        RenderBudget& budget) {
  IMEX_TRY(const List items, elements(value, budget));
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
    if (!budget.step()) break;
    IMEX_TRY(const Value found, lookup(item, Value(attribute), budget));
    bool good = found.truthy();
    if (!test.empty()) {
      IMEX_TRY(good, apply_test(test, found, rest, budget));
    }
    if (good == keep) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Result<Value> filter_selectattr(const Value& value, const Arguments& arguments,
                                RenderBudget& budget) {
  return select_by(value, arguments, true, budget);
}
Result<Value> filter_rejectattr(const Value& value, const Arguments& arguments,
                                RenderBudget& budget) {
  return select_by(value, arguments, false, budget);
}

Result<Value> filter_indent(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  IMEX_TRY(const auto width, integer_argument(arguments, 0, "width", 4));
  const Value* const first = arguments.get(1, "first");
  if (width < 0 || width > 64) return wrong("an indent that is not from 0 to 64");
  const std::string text = text_of(value, budget);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  if (text.size() + lines * static_cast<std::size_t>(width) > kTemplateTextBytesMax)
    return fail(Errc::kResourceExhausted, "a text over 16 MiB");
  return Value(indent(text, static_cast<std::size_t>(width), first != nullptr && first->truthy()));
}

Result<Value> filter_upper(const Value& value, const Arguments&, RenderBudget& budget) {
  return Value(upper(text_of(value, budget)));
}
Result<Value> filter_lower(const Value& value, const Arguments&, RenderBudget& budget) {
  return Value(lower(text_of(value, budget)));
}
Result<Value> filter_capitalize(const Value& value, const Arguments&, RenderBudget& budget) {
  return Value(capitalize(text_of(value, budget)));
}
Result<Value> filter_string(const Value& value, const Arguments&, RenderBudget& budget) {
  return Value(text_of(value, budget));
}
Result<Value> filter_safe(const Value& value, const Arguments&, RenderBudget&) { return value; }

constexpr std::array kFilters{
    NamedFilter{"capitalize", filter_capitalize},
    NamedFilter{"count", filter_length},
    NamedFilter{"d", filter_default, "default_value boolean"},
    NamedFilter{"default", filter_default, "default_value boolean"},
    NamedFilter{"first", filter_first},
    NamedFilter{"indent", filter_indent, "width first"},
    NamedFilter{"int", filter_int, "default"},
    NamedFilter{"items", filter_items},
    NamedFilter{"join", filter_join, "d"},
    NamedFilter{"last", filter_last},
    NamedFilter{"length", filter_length},
    NamedFilter{"list", filter_list},
    NamedFilter{"lower", filter_lower},
    NamedFilter{"map", filter_map, "filter *attribute"},
    NamedFilter{"rejectattr", filter_rejectattr, "attribute test other"},
    NamedFilter{"replace", filter_replace, "old new count"},
    NamedFilter{"reverse", filter_reverse},
    NamedFilter{"safe", filter_safe},
    NamedFilter{"selectattr", filter_selectattr, "attribute test other"},
    NamedFilter{"string", filter_string},
    NamedFilter{"tojson", filter_tojson, "ensure_ascii indent separators sort_keys"},
    NamedFilter{"trim", filter_trim, "chars"},
    NamedFilter{"upper", filter_upper},
};

constexpr std::array<Chars, 20> kTests{
    "defined", "undefined", "none",     "string",   "number", "integer",    "float",
    "boolean", "mapping",   "iterable", "sequence", "true",   "false",      "odd",
    "even",    "eq",        "equalto",  "ne",       "in",     "divisibleby"};

constexpr std::array<Chars, 4> kFunctions{"range", "namespace", "raise_exception", "strftime_now"};
constexpr std::size_t kRangeMax = 100'000;

/// An argument that would be dropped changes what a template means: it is refused.
Result<void> check_arguments(const NamedFilter& filter, const Arguments& arguments) {
  std::size_t positional = 0;
  std::vector<Chars> names;
  for (Chars rest = filter.arguments; !rest.empty();) {
    Chars name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const bool only_named = name.starts_with('*');
    if (only_named) name.remove_prefix(1);
    positional += only_named ? 0 : 1;
    names.push_back(name);
  }
  if (arguments.positional.size() > positional) {
    return fail(Errc::kUnsupported,
                fmt::format("filter '{}' takes {} arguments, {} given", filter.name, positional,
                            arguments.positional.size()));
  }
  for (const auto& [name, value] : arguments.named) {
    if (std::ranges::find(names, name) == names.end()) {
      return fail(Errc::kUnsupported,
                  fmt::format("filter '{}' has no argument '{}'", filter.name, name));
    }
  }
  return {};
}

Result<bool> test_number(Chars name, const Value& value, const Arguments& arguments) {
  const auto* const number = value.get_if<std::int64_t>();
  if (number == nullptr) return wrong(fmt::format("'{}' asked of {}", name, value.type_name()));
  if (name == "odd") return *number % 2 != 0;
  if (name == "even") return *number % 2 == 0;
  IMEX_TRY(const auto divisor, integer_argument(arguments, 0, "num", 0));
  if (divisor == 0) return wrong("divisibleby needs a divisor other than 0");
  return divisor == -1 || *number % divisor == 0;  // the smallest number has no remainder by -1
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

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments,
                           RenderBudget& budget) {
  const auto* const filter = std::ranges::find(kFilters, name, &NamedFilter::name);
  IMEX_CHECK_OK(check_arguments(*filter, arguments));
  auto result = filter->apply(value, arguments, budget);
  if (result) budget.make(result->made_bytes());
  return result;
}

Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments,
                        RenderBudget& budget) {
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
  if (name == "in") return contains(*other, value, budget);
  return equal_values(value, *other, budget) != (name == "ne");
}

Result<Value> call_function(std::string_view name, const Arguments& arguments,
                            std::chrono::system_clock::time_point now, RenderBudget& budget) {
  if (name == "raise_exception") {
    IMEX_TRY(const auto message, text_argument(arguments, 0, "message"));
    return wrong(fmt::format("the template says: {}", message));
  }
  if (name == "namespace") {
    Dict fields;
    for (const auto& [key, value] : arguments.named) set_key(fields, key, value);
    budget.walk(fields.size() * fields.size());
    return Value::dict(std::move(fields));
  }
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
  const auto far = [](std::int64_t number) { return number > kFar || number < -kFar; };
  if (step == 0 || far(begin) || far(second) || far(step)) return wrong("a range without end");
  List items;
  for (std::int64_t i = begin; step > 0 ? i < second : i > second; i += step) {
    if (items.size() == kRangeMax) return wrong(fmt::format("a range of more than {}", kRangeMax));
    if (!budget.make(sizeof(Value))) break;
    items.emplace_back(i);
  }
  return Value::list(std::move(items));
}

}  // namespace imex::inference
