#include "value.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace imex::inference {

namespace {

/// Python writes 1.0, not 1.
std::string float_text(double value) {
  std::string text = fmt::format("{}", value);
  const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? text + ".0" : text;
}

std::string quoted(std::string_view text, char quote, bool json) {
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("{}{:02x}", json ? "\\u00" : "\\x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + quote;
}

}  // namespace

Value Value::from_json(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::ordered_json::value_t::number_integer:
    case nlohmann::ordered_json::value_t::number_unsigned:
      return json.get<std::int64_t>();
    case nlohmann::ordered_json::value_t::number_float:
      return json.get<double>();
    case nlohmann::ordered_json::value_t::string:
      return json.get<std::string>();
    case nlohmann::ordered_json::value_t::array: {
      List items;
      for (const auto& item : json) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict items;
      for (const auto& [key, item] : json.items()) items.emplace_back(key, from_json(item));
      return dict(std::move(items));
    }
    default:
      return None{};
  }
}

const List* Value::list_if() const noexcept {
  const auto* const shared = get_if<std::shared_ptr<const List>>();
  return shared == nullptr ? nullptr : shared->get();
}

Dict* Value::dict_if() const noexcept {
  const auto* const shared = get_if<std::shared_ptr<Dict>>();
  return shared == nullptr ? nullptr : shared->get();
}

bool Value::number() const noexcept {
  return get_if<std::int64_t>() != nullptr || get_if<double>() != nullptr ||
         get_if<bool>() != nullptr;
}

double Value::as_double() const noexcept {
  if (const auto* const whole = get_if<std::int64_t>()) return static_cast<double>(*whole);
  if (const auto* const flag = get_if<bool>()) return *flag ? 1 : 0;
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

std::string Value::text() const {
  if (const auto* const text = get_if<std::string>()) return *text;
  if (undefined()) return {};
  return repr();
}

std::string Value::repr() const {
  if (get_if<None>() != nullptr) return "None";
  if (const auto* const flag = get_if<bool>()) return *flag ? "True" : "False";
  if (const auto* const whole = get_if<std::int64_t>()) return fmt::format("{}", *whole);
  if (const auto* const real = get_if<double>()) return float_text(*real);
  if (const auto* const text = get_if<std::string>()) {
    const bool apostrophe =
        text->find('\'') != std::string::npos && text->find('"') == std::string::npos;
    return quoted(*text, apostrophe ? '"' : '\'', false);
  }
  std::string out;
  if (const List* const items = list_if()) {
    for (const Value& item : *items) out += (out.empty() ? "" : ", ") + item.repr();
    return "[" + out + "]";
  }
  if (const Dict* const items = dict_if()) {
    for (const auto& [key, item] : *items) {
      out += (out.empty() ? "" : ", ") + quoted(key, '\'', false) + ": " + item.repr();
    }
    return "{" + out + "}";
  }
  return get_if<Callable>() != nullptr ? "<function>" : "Undefined";
}

std::string_view Value::type_name() const noexcept {
  constexpr std::string_view kNames[] = {"undefined", "none", "bool", "int",     "float",
                                         "string",    "list", "dict", "function"};
  return kNames[data_.index()];
}

bool Value::equals(const Value& other) const noexcept {
  if (number() && other.number()) return as_double() == other.as_double();
  const List* const items = list_if();
  const List* const others = other.list_if();
  if (items != nullptr && others != nullptr) {
    return std::ranges::equal(*items, *others,
                              [](const Value& a, const Value& b) { return a.equals(b); });
  }
  const Dict* const dict = dict_if();
  const Dict* const other_dict = other.dict_if();
  if (dict != nullptr && other_dict != nullptr) {
    return dict->size() == other_dict->size() && std::ranges::all_of(*dict, [&](const auto& entry) {
             const Value* const same = find_key(*other_dict, entry.first);
             return same != nullptr && same->equals(entry.second);
           });
  }
  const auto* const text = get_if<std::string>();
  const auto* const other_text = other.get_if<std::string>();
  if (text != nullptr && other_text != nullptr) return *text == *other_text;
  return (undefined() && other.undefined()) ||
         (get_if<None>() != nullptr && other.get_if<None>() != nullptr);
}

const Value* find_key(const Dict& dict, std::string_view key) noexcept {
  const auto found = std::ranges::find(
      dict, key, [](const auto& entry) -> std::string_view { return entry.first; });
  return found == dict.end() ? nullptr : &found->second;
}

std::string to_json(const Value& value, int indent, int depth) {
  if (const auto* const flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (value.get_if<None>() != nullptr || value.undefined()) return "null";
  if (const auto* const text = value.get_if<std::string>()) return quoted(*text, '"', true);
  const List* const list = value.list_if();
  const Dict* const dict = value.dict_if();
  if (list == nullptr && dict == nullptr) return value.repr();
  const std::size_t count = list != nullptr ? list->size() : dict->size();
  if (count == 0) return list != nullptr ? "[]" : "{}";
  const auto line = [&](int level) {
    return indent < 0 ? std::string()
                      : "\n" + std::string(static_cast<std::size_t>(indent * level), ' ');
  };
  std::string out = list != nullptr ? "[" : "{";
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) out += indent < 0 ? ", " : ",";
    out += line(depth + 1);
    if (dict != nullptr) out += quoted((*dict)[i].first, '"', true) + ": ";
    out += to_json(list != nullptr ? (*list)[i] : (*dict)[i].second, indent, depth + 1);
  }
  return out + line(depth) + (list != nullptr ? "]" : "}");
}

}  // namespace imex::inference
