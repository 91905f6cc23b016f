/// Values of a template: Python's, as far as chat templates use them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace imex::inference {

/// No text that a template makes, and no list in elements, is larger.
inline constexpr std::size_t kTemplateTextBytesMax = std::size_t{16} << 20U;
inline constexpr std::size_t kTemplateListMax = 1'000'000;

class Value;
struct TemplateNode;
using List = std::vector<Value>;
/// In order of insertion; looked up by walking, as dictionaries here are small.
using Dict = std::vector<std::pair<std::string, Value>>;

struct Undefined {
  friend bool operator==(const Undefined&, const Undefined&) = default;
};
struct None {
  friend bool operator==(const None&, const None&) = default;
};
/// A macro of the template, or a function by name.
struct Callable {
  const TemplateNode* macro = nullptr;  ///< borrowed from the template
  std::string_view function;            ///< static storage
};

/// Lists and dictionaries are shared, not copied; only namespaces ever change.
class Value {
 public:
  Value() : data_(Undefined{}) {}
  template <class T>
  Value(T value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a sum type
  static Value list(List items) { return Value(std::make_shared<const List>(std::move(items))); }
  static Value dict(Dict items) { return Value(std::make_shared<Dict>(std::move(items))); }
  static Value from_json(const nlohmann::ordered_json& json);

  template <class T>
  [[nodiscard]] const T* get_if() const noexcept {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] const List* list_if() const noexcept;
  [[nodiscard]] Dict* dict_if() const noexcept;
  [[nodiscard]] bool undefined() const noexcept { return get_if<Undefined>() != nullptr; }
  [[nodiscard]] bool number() const noexcept;
  [[nodiscard]] double as_double() const noexcept;  ///< of a number

  [[nodiscard]] bool truthy() const noexcept;
  /// As `{{ value }}` prints it.
  [[nodiscard]] std::string text() const;
  /// As Python's repr, which is how elements of a list are printed.
  [[nodiscard]] std::string repr() const;
  [[nodiscard]] std::string_view type_name() const noexcept;
  [[nodiscard]] bool equals(const Value& other) const noexcept;

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, std::string,
               std::shared_ptr<const List>, std::shared_ptr<Dict>, Callable>
      data_;
};

[[nodiscard]] const Value* find_key(const Dict& dict, std::string_view key) noexcept;
/// Python's json.dumps(ensure_ascii=False); `indent` < 0: on one line.
[[nodiscard]] std::string to_json(const Value& value, int indent, int depth = 0);

}  // namespace imex::inference
