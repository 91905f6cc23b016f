/// Filters, tests, methods and functions. Names are checked when a template is parsed, arguments
/// when they are called; errors come without their line, which the evaluator adds.
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
                                         const Arguments& arguments);
[[nodiscard]] Result<bool> apply_test(std::string_view name, const Value& value,
                                      const Arguments& arguments);
[[nodiscard]] Result<Value> call_method(std::string_view name, const Value& value,
                                        const Arguments& arguments);
[[nodiscard]] Result<Value> call_function(std::string_view name, const Arguments& arguments,
                                          std::chrono::system_clock::time_point now);

/// Elements of what a loop or a list filter can walk: keys of a dictionary, characters of a text.
[[nodiscard]] Result<List> elements(const Value& value);

/// Attribute or item `key` of `value`; undefined if it has none. Errors: `value` is undefined.
[[nodiscard]] Result<Value> lookup(const Value& value, const Value& key);

}  // namespace imex::inference
