/// Walks the tree of a template and prints. Bounded in steps, output, bytes made, and in the depth
/// of macros, values and of its own calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "builtins.hpp"
#include "node.hpp"

namespace imex::inference {

class TemplateEvaluator {
 public:
  TemplateEvaluator(Dict globals, std::chrono::system_clock::time_point now)
      : now_(now), scopes_{std::move(globals)} {}
  TemplateEvaluator(const TemplateEvaluator&) = delete;
  TemplateEvaluator& operator=(const TemplateEvaluator&) = delete;
  ~TemplateEvaluator();

  /// Errors: kInvalidArgument, kUnsupported, kResourceExhausted, with the line.
  [[nodiscard]] Result<std::string> render(const TemplateNode& root);

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

  // Statements (evaluator.cpp)
  Result<Flow> run(const TemplateNode& node);
  Result<Flow> run_all(const std::vector<NodePtr>& nodes);
  Result<Flow> run_if(const TemplateNode& node);
  Result<Flow> run_for(const TemplateNode& node);
  Result<List> loop_items(const TemplateNode& node);
  Result<void> bind(const TemplateNode& node, const Value& item);
  Result<void> run_set(const TemplateNode& node);
  Result<void> set_field(const TemplateNode& node);
  Result<void> print(const TemplateNode& node, std::string_view text);
  /// The output of `body` as a value.
  Result<Value> capture(const TemplateNode& body);

  // Expressions (evaluator_expressions.cpp)
  /// What an expression stands for; the budget and the depth of the value are checked here.
  Result<Value> value_of(const TemplateNode& node);
  Result<Value> evaluate(const TemplateNode& node);
  Result<Value> negated(const TemplateNode& node);
  Result<Value> applied(const TemplateNode& node);
  Result<Value> list_value(const TemplateNode& node);
  Result<Value> dict_value(const TemplateNode& node);
  Result<Value> slice(const TemplateNode& node);
  Result<Value> binary(const TemplateNode& node);
  Result<Value> arithmetic(const TemplateNode& node, const Value& left, const Value& right);
  Result<Value> joined(const TemplateNode& node, const List& left, const List& right);
  Result<Value> compare(const TemplateNode& node);
  Result<Value> call(const TemplateNode& node);
  Result<Value> call_macro(const TemplateNode& macro, Arguments arguments);
  Result<Arguments> arguments_of(const TemplateNode& node);

  /// Counts how deep the evaluator is inside itself; refuses where the stack might end.
  class Level;
  Result<void> step(const TemplateNode& node);
  Result<void> check_budget(const TemplateNode& node);
  /// Puts the line in front of an error that has none.
  [[nodiscard]] static Error at_line(const TemplateNode& node, Error error);

  [[nodiscard]] Value variable(std::string_view name);
  void assign(std::string name, Value value);

  std::chrono::system_clock::time_point now_;
  std::vector<Dict> scopes_;    // the innermost last
  std::size_t macro_base_ = 0;  // scopes between the globals and this one are another macro's
  std::string out_;
  RenderBudget budget_;
  unsigned level_ = 0, macro_depth_ = 0;
  /// Namespaces that were assigned to. Only they can contain themselves, or grow deeper than they
  /// were when other values took them in; the destructor takes them apart.
  std::vector<std::shared_ptr<Mapping>> changed_;
};

}  // namespace imex::inference
