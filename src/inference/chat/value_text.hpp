/// Values as text: printed, as Python's repr, as JSON.
#pragma once

#include <string>

#include "value.hpp"

namespace imex::inference {

/// As `{{ value }}` prints it.
[[nodiscard]] std::string text_of(const Value& value, RenderBudget& budget);
/// As Python's repr, which is how elements of a list are printed.
[[nodiscard]] std::string repr_of(const Value& value, RenderBudget& budget);

/// The arguments of transformers' tojson, which are those of Python's json.dumps.
struct JsonStyle {
  bool ascii = false;
  int indent = -1;  ///< below 0: on one line
  bool sort_keys = false;
  std::string between = ", ", after_key = ": ";
};
/// Errors: kInvalidArgument (what JSON cannot say: an undefined value, a function).
[[nodiscard]] Result<std::string> json_of(const Value& value, const JsonStyle& style,
                                          RenderBudget& budget);

}  // namespace imex::inference
