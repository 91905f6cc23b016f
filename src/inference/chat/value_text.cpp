#include "value_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "strings.hpp"

namespace imex::inference {

namespace {

/// Python writes 1.0, not 1.
std::string float_text(double value) {
  std::string text = fmt::format("{}", value);
  const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? text + ".0" : text;
}

std::string repr_of_text(std::string_view text) {
  const bool apostrophe = text.find('\'') != std::string_view::npos;
  const char quote = apostrophe && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    constexpr std::string_view kEscaped = "\n\r\t", kLetters = "nrt";
    const std::size_t known = kEscaped.find(c);
    const auto byte = static_cast<unsigned char>(c);
    if (known != std::string_view::npos) {
      out += {'\\', kLetters[known]};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

/// \uXXXX, or two of them above the first 65536 code points.
std::string ascii_escape(char32_t point) {
  if (point < 0x10000) return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point));
  const std::uint32_t rest = static_cast<std::uint32_t>(point) - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10U), 0xdc00 + (rest & 0x3ffU));
}

std::string json_of_text(std::string_view text, bool ascii) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const char c = character.front();
    const std::size_t known = kEscaped.find(c);
    if (known != std::string_view::npos) {
      out += {'\\', kLetters[known]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else if (character.size() > 1 && ascii) {
      out += ascii_escape(code_point(character));
    } else {
      out += character;
    }
  }
  return out + '"';
}

class Repr {
 public:
  explicit Repr(RenderBudget& budget) : budget_(budget) {}

  void add(const Value& value, unsigned depth) {
    if (!budget_.enter(depth)) return;
    if (const List* const items = value.list_if()) return add_list(*items, depth);
    if (const Dict* const items = value.dict_if()) return add_dict(*items, depth);
    add(scalar(value));
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.get_if<None>() != nullptr) return "None";
    if (const auto* const flag = value.get_if<bool>()) return *flag ? "True" : "False";
    if (const auto* const whole = value.get_if<std::int64_t>()) return fmt::format("{}", *whole);
    if (const auto* const real = value.get_if<double>()) return float_text(*real);
    if (const auto* const text = value.get_if<std::string>()) return repr_of_text(*text);
    return value.undefined() ? "Undefined" : "<function>";
  }
  void add(std::string_view text) {
    if (budget_.make(text.size())) out_ += text;
  }
  void add_list(const List& items, unsigned depth) {
    add("[");
    for (std::size_t i = 0; i < items.size() && !budget_.spent(); ++i) {
      if (i != 0) add(", ");
      add(items[i], depth + 1);
    }
    add("]");
  }
  void add_dict(const Dict& items, unsigned depth) {
    add("{");
    for (std::size_t i = 0; i < items.size() && !budget_.spent(); ++i) {
      add((i == 0 ? "" : ", ") + repr_of_text(items[i].first) + ": ");
      add(items[i].second, depth + 1);
    }
    add("}");
  }

  RenderBudget& budget_;
  std::string out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, RenderBudget& budget) : style_(style), budget_(budget) {}

  Result<void> add(const Value& value, unsigned depth) {
    if (!budget_.enter(depth)) return {};
    const List* const list = value.list_if();
    if (list != nullptr && !list->empty()) return add_list(*list, depth);
    const Dict* const dict = value.dict_if();
    if (dict != nullptr && !dict->empty()) return add_dict(*dict, depth);
    if (value.undefined() || value.get_if<Callable>() != nullptr) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("JSON of a value of type {}", value.type_name()));
    }
    add(list != nullptr ? "[]" : dict != nullptr ? "{}" : scalar(value));
    return {};
  }
  std::string take() { return std::move(out_); }

 private:
  [[nodiscard]] std::string scalar(const Value& value) const {
    if (const auto* const flag = value.get_if<bool>()) return *flag ? "true" : "false";
    if (const auto* const text = value.get_if<std::string>())
      return json_of_text(*text, style_.ascii);
    if (const auto* const whole = value.get_if<std::int64_t>()) return fmt::format("{}", *whole);
    const auto* const real = value.get_if<double>();
    if (real == nullptr) return "null";
    if (std::isnan(*real)) return "NaN";
    if (std::isinf(*real)) return *real < 0 ? "-Infinity" : "Infinity";
    return float_text(*real);
  }
  void add(std::string_view text) {
    if (budget_.make(text.size())) out_ += text;
  }
  void add_line(unsigned depth) {
    if (style_.indent < 0) return;
    add("\n" + std::string(static_cast<std::size_t>(style_.indent) * depth, ' '));
  }
  Result<void> add_list(const List& items, unsigned depth) {
    add("[");
    for (std::size_t i = 0; i < items.size() && !budget_.spent(); ++i) {
      if (i != 0) add(style_.between);
      add_line(depth + 1);
      IMEX_CHECK_OK(add(items[i], depth + 1));
    }
    add_line(depth);
    add("]");
    return {};
  }
  Result<void> add_dict(const Dict& items, unsigned depth) {
    std::vector<const Dict::value_type*> entries;
    for (const auto& entry : items) entries.push_back(&entry);
    if (style_.sort_keys)
      std::ranges::sort(entries, {}, [](const auto* entry) { return entry->first; });
    add("{");
    for (std::size_t i = 0; i < entries.size() && !budget_.spent(); ++i) {
      if (i != 0) add(style_.between);
      add_line(depth + 1);
      add(json_of_text(entries[i]->first, style_.ascii) + style_.after_key);
      IMEX_CHECK_OK(add(entries[i]->second, depth + 1));
    }
    add_line(depth);
    add("}");
    return {};
  }

  const JsonStyle& style_;
  RenderBudget& budget_;
  std::string out_;
};

}  // namespace

std::string text_of(const Value& value, RenderBudget& budget) {
  if (const auto* const text = value.get_if<std::string>()) {
    budget.search(text->size());  // it is copied
    return *text;
  }
  if (value.undefined()) return {};
  return repr_of(value, budget);
}

std::string repr_of(const Value& value, RenderBudget& budget) {
  Repr repr(budget);
  repr.add(value, 0);
  return repr.take();
}

Result<std::string> json_of(const Value& value, const JsonStyle& style, RenderBudget& budget) {
  JsonWriter writer(style, budget);
  IMEX_CHECK_OK(writer.add(value, 0));
  return writer.take();
}

}  // namespace imex::inference
