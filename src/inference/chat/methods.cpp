// Methods of strings and dictionaries.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "builtins.hpp"
#include "strings.hpp"

namespace imex::inference {

namespace {

constexpr std::array<std::string_view, 15> kMethods{
    "capitalize", "endswith", "find",  "get",        "items", "keys",  "lower", "lstrip",
    "replace",    "rstrip",   "split", "startswith", "strip", "upper", "values"};

tl::unexpected<Error> wrong_method(std::string_view name, const Value& value) {
  return fail(Errc::kInvalidArgument,
              fmt::format("a value of type {} has no method '{}', or not with these arguments",
                          value.type_name(), name));
}

/// The string at `index`; empty and `good` false if it is none.
std::string_view string_at(const Arguments& arguments, std::size_t index, bool& good) {
  const auto* const text = index < arguments.positional.size()
                               ? arguments.positional[index].get_if<std::string>()
                               : nullptr;
  good = good && text != nullptr;
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

bool any_affix(const std::string& text, const Value& given, bool at_start) {
  const auto has = [&](const Value& one) {
    const auto* const affix = one.get_if<std::string>();
    return affix != nullptr && (at_start ? text.starts_with(*affix) : text.ends_with(*affix));
  };
  const List* const several = given.list_if();
  return several != nullptr ? std::ranges::any_of(*several, has) : has(given);
}

/// Words between runs of white space; what is left after `most` splits keeps its inner ones.
Value split_words(std::string_view text, std::int64_t most, RenderBudget& budget) {
  List parts;
  text.remove_prefix(leading_space(text));
  while (!text.empty() && budget.make(kTextBytes)) {
    std::size_t end = text.size();
    if (most < 0 || std::cmp_less(parts.size(), most)) {
      for (end = 0; end < text.size() && leading_space(character_at(text, end)) == 0;) {
        end += character_at(text, end).size();
      }
    }
    parts.emplace_back(std::string(text.substr(0, end)));
    text.remove_prefix(end);
    text.remove_prefix(leading_space(text));
  }
  return Value::list(std::move(parts));
}

Value split_text(const std::string& text, std::string_view separator, std::int64_t most,
                 RenderBudget& budget) {
  List parts;
  std::size_t at = 0;
  while ((most < 0 || std::cmp_less(parts.size(), most)) && budget.make(kTextBytes)) {
    const std::size_t end = find_text(text, separator, at);
    if (end == std::string::npos) break;
    parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return Value::list(std::move(parts));
}

Result<Value> replace_text(const std::string& text, std::string_view from, std::string_view to,
                           std::int64_t most) {
  std::string out;
  std::size_t at = 0;
  for (std::int64_t done = 0; most < 0 || done < most; ++done) {
    const std::size_t found = find_text(text, from, at);
    if (found == std::string::npos) break;
    out.append(text, at, found - at).append(to);
    at = found + from.size();
    if (out.size() > kTemplateTextBytesMax)
      return fail(Errc::kResourceExhausted, "a text over 16 MiB");
  }
  return Value(out.append(text, at));
}

std::int64_t count_at(const Arguments& arguments, std::size_t index) {
  const auto* const count = index < arguments.positional.size()
                                ? arguments.positional[index].get_if<std::int64_t>()
                                : nullptr;
  return count == nullptr ? -1 : *count;
}

Result<Value> string_method(std::string_view name, const std::string& text,
                            const Arguments& arguments, RenderBudget& budget) {
  budget.search(text.size());
  const Value self(text);
  const bool bare = arguments.positional.empty();
  bool good = true;
  if (name == "upper") return Value(upper(text));
  if (name == "lower") return Value(lower(text));
  if (name == "capitalize") return Value(capitalize(text));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    std::optional<std::string_view> chars;
    if (!bare && arguments.positional[0].get_if<None>() == nullptr)
      chars = string_at(arguments, 0, good);
    if (good) return Value(std::string(strip(text, chars, name != "rstrip", name != "lstrip")));
  } else if ((name == "startswith" || name == "endswith") && !bare) {
    return Value(any_affix(text, arguments.positional[0], name == "startswith"));
  } else if (name == "split") {
    const bool words = bare || arguments.positional[0].get_if<None>() != nullptr;
    if (words) return split_words(text, count_at(arguments, 1), budget);
    const std::string_view separator = string_at(arguments, 0, good);
    if (good && !separator.empty())
      return split_text(text, separator, count_at(arguments, 1), budget);
  } else if (name == "replace") {
    const std::string_view from = string_at(arguments, 0, good);
    const std::string_view to = string_at(arguments, 1, good);
    if (good && !from.empty()) return replace_text(text, from, to, count_at(arguments, 2));
  } else if (name == "find") {
    const std::size_t found = find_text(text, string_at(arguments, 0, good));
    if (!good) return wrong_method(name, self);
    if (found == std::string::npos) return Value(std::int64_t{-1});
    return Value(
        static_cast<std::int64_t>(count_characters(std::string_view(text).substr(0, found))));
  }
  return wrong_method(name, self);
}

Result<Value> dict_method(std::string_view name, const Value& self, const Dict& dict,
                          const Arguments& arguments, RenderBudget& budget) {
  budget.walk(dict.size());
  if (name == "get" && !arguments.positional.empty()) {
    const auto* const key = arguments.positional[0].get_if<std::string>();
    const Value* const found = key == nullptr ? nullptr : find_key(dict, *key);
    if (found != nullptr) return *found;
    return arguments.positional.size() > 1 ? arguments.positional[1] : Value(None{});
  }
  if (name != "keys" && name != "values" && name != "items") return wrong_method(name, self);
  List out;
  for (const auto& [key, value] : dict) {
    if (!budget.make(kTextBytes + key.size())) break;
    if (name == "keys") {
      out.emplace_back(key);
    } else if (name == "values") {
      out.push_back(value);
    } else {
      out.push_back(Value::list({Value(key), value}));
    }
  }
  return Value::list(std::move(out));
}

}  // namespace

bool is_known_method(std::string_view name) noexcept {
  return std::ranges::find(kMethods, name) != kMethods.end();
}

Result<Value> call_method(std::string_view name, const Value& value, const Arguments& arguments,
                          RenderBudget& budget) {
  const auto* const text = value.get_if<std::string>();
  const Dict* const dict = value.dict_if();
  if (text == nullptr && dict == nullptr) return wrong_method(name, value);
  auto result = text != nullptr ? string_method(name, *text, arguments, budget)
                                : dict_method(name, value, *dict, arguments, budget);
  if (result) budget.make(result->made_bytes());
  return result;
}

}  // namespace imex::inference
