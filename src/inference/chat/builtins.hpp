/// Filters, tests, methods and functions. Names are checked when a template is parsed, arguments
/// when they are called; errors come without their line, which the evaluator adds. What they make
/// counts against the budget; once that is spent, results are of no use and the caller refuses.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "value.hpp"

namespace imex::inference {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The value at `index` or called `name`; nullptr if neither is given.
  [[nodiscard]] const Value* get(std::size_t index, std::string_view name) const noexcept;
};

[[nodiscard]] bool is_known_filter(std::string_view name) noexcept;
[[nodiscard]] bool is_known_test(std::string_view name) noexcept;
[[nodiscard]] bool is_known_method(std::string_view name) noexcept;
/// The function of that name, or undefined.
[[nodiscard]] Value find_function(std::string_view name) noexcept;

[[nodiscard]] Result<Value> apply_filter(std::string_view name, const Value& value,
                                         const Arguments& arguments, RenderBudget& budget);
[[nodiscard]] Result<bool> apply_test(std::string_view name, const Value& value,
                                      const Arguments& arguments, RenderBudget& budget);
[[nodiscard]] Result<Value> call_method(std::string_view name, const Value& value,
                                        const Arguments& arguments, RenderBudget& budget);
[[nodiscard]] Result<Value> call_function(std::string_view name, const Arguments& arguments,
                                          std::chrono::system_clock::time_point now,
                                          RenderBudget& budget);

/// What a short text of its own costs in a list: the element, the shared text, its bookkeeping.
inline constexpr std::size_t kTextBytes = sizeof(Value) + sizeof(std::string) + 32;

/// Elements of what a loop or a list filter can walk: keys of a dictionary, characters of a text.
[[nodiscard]] Result<List> elements(const Value& value, RenderBudget& budget);
/// Python's `part in whole`. Errors: kInvalidArgument (in a text only texts can be).
[[nodiscard]] Result<bool> contains(const Value& whole, const Value& part, RenderBudget& budget);

/// Attribute or item `key` of `value`; undefined if it has none. Errors: `value` is undefined.
[[nodiscard]] Result<Value> lookup(const Value& value, const Value& key, RenderBudget& budget);

}  // namespace imex::inference
