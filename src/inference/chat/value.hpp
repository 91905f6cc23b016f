/// Values of a template: Python's, as far as chat templates use them.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "budget.hpp"

namespace imex::inference {

/// No text that a template makes, and no list in elements, is larger.
inline constexpr std::size_t kTemplateTextBytesMax = std::size_t{16} << 20U;
inline constexpr std::size_t kTemplateListMax = 1'000'000;

class Value;
struct TemplateNode;
using List = std::vector<Value>;
/// In order of insertion; looked up by walking, as dictionaries here are small.
using Dict = std::vector<std::pair<std::string, Value>>;
struct Sequence;
struct Mapping;

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

/// Texts, lists and dictionaries are shared, not copied; only namespaces ever change.
class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(std::string text)  // NOLINT(google-explicit-constructor): a sum type
      : data_(std::make_shared<const std::string>(std::move(text))) {}
  template <class T>
    requires(!std::convertible_to<T, std::string_view>)
  Value(T value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a sum type
  static Value list(List items);
  static Value dict(Dict items);
  /// Errors: kInvalidArgument (nested deeper than 100; a whole number of more than 64 bits).
  [[nodiscard]] static Result<Value> from_json(const nlohmann::ordered_json& json,
                                               unsigned depth = 0);

  template <class T>
  [[nodiscard]] const T* get_if() const noexcept {
    if constexpr (std::same_as<T, std::string>) {
      const auto* const shared = std::get_if<std::shared_ptr<const std::string>>(&data_);
      return shared == nullptr ? nullptr : shared->get();
    } else {
      return std::get_if<T>(&data_);
    }
  }
  [[nodiscard]] const List* list_if() const noexcept;
  [[nodiscard]] const Dict* dict_if() const noexcept;
  /// The dictionary to change; nullptr if it is none.
  [[nodiscard]] std::shared_ptr<Mapping> mapping() const noexcept;
  [[nodiscard]] bool undefined() const noexcept { return get_if<Undefined>() != nullptr; }
  [[nodiscard]] bool number() const noexcept;
  [[nodiscard]] double as_double() const noexcept;  ///< of a number
  /// Containers inside each other when it was made; a namespace may grow deeper later.
  [[nodiscard]] unsigned depth() const noexcept;
  /// Bytes that making it took, without those of the elements.
  [[nodiscard]] std::size_t made_bytes() const noexcept;

  [[nodiscard]] bool truthy() const noexcept;
  [[nodiscard]] std::string_view type_name() const noexcept;

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Sequence>, std::shared_ptr<Mapping>, Callable>
      data_;
};

struct Sequence {
  List items;
  unsigned depth = 1;
};
struct Mapping {
  Dict items;
  unsigned depth = 1;
  bool changed = false;  ///< a namespace that was assigned to
};

[[nodiscard]] const Value* find_key(const Dict& dict, std::string_view key) noexcept;
/// Adds an entry, or replaces the value of the one that is there.
void set_key(Dict& dict, std::string key, Value value);

/// Below -1 or above 1: there is no order between these types.
inline constexpr int kNoOrder = 2;
/// -1, 0, 1 for numbers, exactly, and for texts.
[[nodiscard]] int order_of(const Value& left, const Value& right) noexcept;
/// As Python's ==.
[[nodiscard]] bool equal_values(const Value& left, const Value& right, RenderBudget& budget,
                                unsigned depth = 0);

}  // namespace imex::inference
