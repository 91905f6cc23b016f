#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "evaluator.hpp"
#include "evaluator_level.hpp"
#include "lexer.hpp"
#include "value_text.hpp"

namespace imex::inference {

namespace {

using NodeKind = TemplateNode::Kind;
constexpr unsigned kMacroDepthMax = 32;

tl::unexpected<Error> wrong_types(const TemplateNode& node, const Value& left, const Value& right) {
  return refuse_template(
      node.line, fmt::format("'{}' of {} and {}", node.text, left.type_name(), right.type_name()),
      Errc::kInvalidArgument);
}

/// Python's rules: the quotient is rounded down, the remainder has the divisor's sign.
Result<Value> divide(const TemplateNode& node, std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) {
    return refuse_template(node.line, "a division that has no result", Errc::kInvalidArgument);
  }
  const std::int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (node.text == "%") return Value(adjust ? remainder + b : remainder);
  return Value(a / b - (adjust ? 1 : 0));
}

/// Of an int or, as in Python, of a bool.
std::optional<std::int64_t> whole_number(const Value& value) {
  if (const auto* const flag = value.get_if<bool>()) return *flag ? 1 : 0;
  const auto* const whole = value.get_if<std::int64_t>();
  if (whole == nullptr) return std::nullopt;
  return *whole;
}

Result<Value> repeated(const TemplateNode& node, std::string_view text, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (!text.empty() && count > kTemplateTextBytesMax / text.size()) {
    return refuse_template(node.line, "a value that is too large", Errc::kResourceExhausted);
  }
  std::string out;
  out.reserve(count * text.size());
  for (std::size_t i = 0; i < count && !text.empty(); ++i) out += text;
  return Value(std::move(out));
}

Result<Value> whole_numbers(const TemplateNode& node, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (node.text == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (node.text == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else {
    overflow = __builtin_mul_overflow(a, b, &result);
  }
  if (overflow)
    return refuse_template(node.line, "a number that is too large", Errc::kInvalidArgument);
  return Value(result);
}

}  // namespace

Result<Value> TemplateEvaluator::value_of(const TemplateNode& node) {
  const Level level(*this);
  IMEX_CHECK_OK(level.check(node));
  IMEX_CHECK_OK(step(node));
  auto value = evaluate(node);
  if (!value) return value;
  IMEX_CHECK_OK(check_budget(node));
  if (value->depth() > RenderBudget::kDepthMax) {
    return refuse_template(node.line, "a value nested deeper than 100", Errc::kResourceExhausted);
  }
  return value;
}

Result<Value> TemplateEvaluator::evaluate(const TemplateNode& node) {
  switch (node.kind) {
    case NodeKind::kLiteral:
      return node.literal;
    case NodeKind::kName:
      return variable(node.text);
    case NodeKind::kList:
      return list_value(node);
    case NodeKind::kDict:
      return dict_value(node);
    case NodeKind::kAttribute:
    case NodeKind::kIndex: {
      IMEX_TRY(const Value object, value_of(*node.parts[0]));
      Value key{node.text};
      if (node.kind == NodeKind::kIndex) {
        IMEX_TRY(key, value_of(*node.parts[1]));
      }
      auto found = lookup(object, key, budget_);
      if (!found) return fail(at_line(node, std::move(found).error()));
      return found;
    }
    case NodeKind::kSlice:
      return slice(node);
    case NodeKind::kCall:
      return call(node);
    case NodeKind::kFilter:
    case NodeKind::kTest:
      return applied(node);
    case NodeKind::kNot: {
      IMEX_TRY(const Value value, value_of(*node.parts[0]));
      return Value(!value.truthy());
    }
    case NodeKind::kNegate:
      return negated(node);
    case NodeKind::kBinary:
      return binary(node);
    case NodeKind::kCompare:
      return compare(node);
    case NodeKind::kConditional: {
      IMEX_TRY(const Value condition, value_of(*node.parts[0]));
      return value_of(*node.parts[condition.truthy() ? 1 : 2]);
    }
    default:
      return Value();
  }
}

/// A filter or a test.
Result<Value> TemplateEvaluator::applied(const TemplateNode& node) {
  IMEX_TRY(const Value object, value_of(*node.parts[0]));
  IMEX_TRY(const Arguments arguments, arguments_of(node));
  if (node.kind == NodeKind::kTest) {
    auto answer = apply_test(node.text, object, arguments, budget_);
    if (!answer) return fail(at_line(node, std::move(answer).error()));
    return Value(*answer);
  }
  auto changed = apply_filter(node.text, object, arguments, budget_);
  if (!changed) return fail(at_line(node, std::move(changed).error()));
  return changed;
}

Result<Value> TemplateEvaluator::negated(const TemplateNode& node) {
  IMEX_TRY(const Value value, value_of(*node.parts[0]));
  const std::optional<std::int64_t> whole = whole_number(value);
  if (whole && *whole != std::numeric_limits<std::int64_t>::min()) return Value(-*whole);
  if (const auto* const real = value.get_if<double>()) return Value(-*real);
  return refuse_template(node.line, fmt::format("'-' of {}", value.type_name()),
                         Errc::kInvalidArgument);
}

Result<Value> TemplateEvaluator::list_value(const TemplateNode& node) {
  List items;
  for (const NodePtr& part : node.parts) {
    IMEX_TRY(Value item, value_of(*part));
    items.push_back(std::move(item));
  }
  budget_.make(items.size() * sizeof(Value));
  return Value::list(std::move(items));
}

Result<Value> TemplateEvaluator::dict_value(const TemplateNode& node) {
  Dict items;
  for (std::size_t i = 0; i < node.parts.size(); i += 2) {
    IMEX_TRY(const Value key, value_of(*node.parts[i]));
    IMEX_TRY(Value value, value_of(*node.parts[i + 1]));
    if (!budget_.walk(items.size())) break;
    set_key(items, text_of(key, budget_), std::move(value));  // of equal keys the last counts
  }
  budget_.make(items.size() * sizeof(Dict::value_type));
  return Value::dict(std::move(items));
}

Result<Value> TemplateEvaluator::slice(const TemplateNode& node) {
  IMEX_TRY(const Value object, value_of(*node.parts[0]));
  auto items = elements(object, budget_);
  if (!items) return fail(at_line(node, std::move(items).error()));
  const auto size = static_cast<std::int64_t>(items->size());
  std::int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    IMEX_TRY(const Value bound, value_of(*node.parts[i + 1]));
    if (bound.undefined() || bound.get_if<None>() != nullptr) continue;
    const auto* const whole = bound.get_if<std::int64_t>();
    constexpr std::int64_t kFar = std::int64_t{1} << 40U;  // beyond every list
    if (whole == nullptr) {
      return refuse_template(node.line, "a slice by what is no index", Errc::kInvalidArgument);
    }
    bounds[i] = std::clamp(*whole, -kFar, kFar);
    given[i] = true;
  }
  const std::int64_t stride = bounds[2];
  if (stride == 0) return refuse_template(node.line, "a slice of step 0", Errc::kInvalidArgument);
  const std::int64_t low = stride > 0 ? 0 : -1;
  const std::int64_t high = stride > 0 ? size : size - 1;
  const auto clamp = [&](std::int64_t at) {
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  const std::int64_t begin = given[0] ? clamp(bounds[0]) : stride > 0 ? low : high;
  const std::int64_t end = given[1] ? clamp(bounds[1]) : stride > 0 ? high : low;
  List kept;
  for (std::int64_t i = begin; stride > 0 ? i < end : i > end; i += stride) {
    kept.push_back((*items)[static_cast<std::size_t>(i)]);
  }
  budget_.make(kept.size() * sizeof(Value));
  if (object.get_if<std::string>() == nullptr) return Value::list(std::move(kept));
  std::string text;
  for (const Value& character : kept) text += text_of(character, budget_);
  return Value(std::move(text));
}

Result<Value> TemplateEvaluator::binary(const TemplateNode& node) {
  IMEX_TRY(Value left, value_of(*node.parts[0]));
  if (node.text == "and" && !left.truthy()) return left;
  if (node.text == "or" && left.truthy()) return left;
  IMEX_TRY(Value right, value_of(*node.parts[1]));
  if (node.text == "and" || node.text == "or") return right;
  auto result = arithmetic(node, left, right);
  if (result) budget_.make(result->made_bytes());
  const auto* const text = result ? result->get_if<std::string>() : nullptr;
  const List* const list = result ? result->list_if() : nullptr;
  if ((text != nullptr && text->size() > kTemplateTextBytesMax) ||
      (list != nullptr && list->size() > kTemplateListMax)) {
    return refuse_template(node.line, "a value that is too large", Errc::kResourceExhausted);
  }
  return result;
}

Result<Value> TemplateEvaluator::arithmetic(const TemplateNode& node, const Value& left,
                                            const Value& right) {
  const auto* const left_text = left.get_if<std::string>();
  const auto* const right_text = right.get_if<std::string>();
  if (node.text == "~") return Value(text_of(left, budget_) + text_of(right, budget_));
  if (node.text == "+" && left_text != nullptr && right_text != nullptr) {
    return Value(*left_text + *right_text);
  }
  const auto* const times = right.get_if<std::int64_t>();
  if (node.text == "*" && left_text != nullptr && times != nullptr) {
    return repeated(node, *left_text, *times);
  }
  const List* const left_list = left.list_if();
  const List* const right_list = right.list_if();
  if (node.text == "+" && left_list != nullptr && right_list != nullptr) {
    return joined(node, *left_list, *right_list);
  }
  if (!left.number() || !right.number()) return wrong_types(node, left, right);
  const std::optional<std::int64_t> a = whole_number(left);
  const std::optional<std::int64_t> b = whole_number(right);
  if (a && b && node.text != "/") {
    if (node.text == "//" || node.text == "%") return divide(node, *a, *b);
    return whole_numbers(node, *a, *b);
  }
  const double x = left.as_double();
  const double y = right.as_double();
  if (node.text == "+") return Value(x + y);
  if (node.text == "-") return Value(x - y);
  if (node.text == "*") return Value(x * y);
  if (y == 0)
    return refuse_template(node.line, "a division that has no result", Errc::kInvalidArgument);
  if (node.text == "/") return Value(x / y);
  if (node.text == "//") return Value(std::floor(x / y));
  return Value(x - y * std::floor(x / y));
}

Result<Value> TemplateEvaluator::joined(const TemplateNode& node, const List& left,
                                        const List& right) {
  budget_.make((left.size() + right.size()) * sizeof(Value));
  IMEX_CHECK_OK(check_budget(node));
  List both = left;
  both.insert(both.end(), right.begin(), right.end());
  return Value::list(std::move(both));
}

Result<Value> TemplateEvaluator::compare(const TemplateNode& node) {
  IMEX_TRY(const Value left, value_of(*node.parts[0]));
  IMEX_TRY(const Value right, value_of(*node.parts[1]));
  const std::string& sign = node.text;
  if (sign == "==") return Value(equal_values(left, right, budget_));
  if (sign == "!=") return Value(!equal_values(left, right, budget_));
  if (sign == "in" || sign == "not in") {
    const auto found = contains(right, left, budget_);
    if (!found) return wrong_types(node, left, right);
    return Value(*found == (sign == "in"));
  }
  const auto* const text = left.get_if<std::string>();
  if (text != nullptr) budget_.search(text->size());
  const int ordered = order_of(left, right);
  if (ordered == kNoOrder) return wrong_types(node, left, right);
  if (sign == "<") return Value(ordered < 0);
  if (sign == "<=") return Value(ordered <= 0);
  if (sign == ">") return Value(ordered > 0);
  return Value(ordered >= 0);
}

Result<Arguments> TemplateEvaluator::arguments_of(const TemplateNode& node) {
  Arguments arguments;
  for (std::size_t i = 1; i < node.parts.size(); ++i) {
    IMEX_TRY(Value value, value_of(*node.parts[i]));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, part] : node.named) {
    IMEX_TRY(Value value, value_of(*part));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<Value> TemplateEvaluator::call(const TemplateNode& node) {
  const TemplateNode& target = *node.parts[0];
  if (target.kind == NodeKind::kAttribute) {
    IMEX_TRY(const Value object, value_of(*target.parts[0]));
    IMEX_TRY(const Arguments arguments, arguments_of(node));
    auto result = call_method(target.text, object, arguments, budget_);
    if (!result) return fail(at_line(node, std::move(result).error()));
    return result;
  }
  IMEX_TRY(const Value function, value_of(target));
  const auto* const callable = function.get_if<Callable>();
  if (callable == nullptr) {
    return refuse_template(node.line, fmt::format("unknown function '{}'", target.text));
  }
  IMEX_TRY(Arguments arguments, arguments_of(node));
  auto result = callable->macro != nullptr
                    ? call_macro(*callable->macro, std::move(arguments))
                    : call_function(callable->function, arguments, now_, budget_);
  if (!result) return fail(at_line(node, std::move(result).error()));
  return result;
}

/// A macro sees its arguments and the globals, and gives what it prints.
Result<Value> TemplateEvaluator::call_macro(const TemplateNode& macro, Arguments arguments) {
  if (macro_depth_ == kMacroDepthMax) {
    return refuse_template(macro.line,
                           fmt::format("macros call each other deeper than {}", kMacroDepthMax),
                           Errc::kResourceExhausted);
  }
  Dict scope;
  for (std::size_t i = 0; i < macro.names.size(); ++i) {
    Value value;
    if (const Value* const given = arguments.get(i, macro.names[i])) {
      value = *given;
    } else if (macro.parts[i]->kind != NodeKind::kNothing) {
      IMEX_TRY(value, value_of(*macro.parts[i]));
    }
    scope.emplace_back(macro.names[i], std::move(value));
  }
  const std::size_t outer_base = std::exchange(macro_base_, scopes_.size());
  scopes_.push_back(std::move(scope));
  ++macro_depth_;
  auto result = capture(*macro.body[0]);
  --macro_depth_;
  scopes_.pop_back();
  macro_base_ = outer_base;
  return result;
}

}  // namespace imex::inference
