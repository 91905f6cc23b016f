#include "evaluator.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "evaluator_level.hpp"
#include "lexer.hpp"
#include "value_text.hpp"

namespace imex::inference {

namespace {

using NodeKind = TemplateNode::Kind;
Value loop_facts(const List& items, std::size_t i) {
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  const std::size_t count = items.size();
  return Value::dict({{"index", number(i + 1)},
                      {"index0", number(i)},
                      {"revindex", number(count - i)},
                      {"revindex0", number(count - i - 1)},
                      {"first", Value(i == 0)},
                      {"last", Value(i + 1 == count)},
                      {"length", number(count)},
                      {"previtem", i == 0 ? Value() : items[i - 1]},
                      {"nextitem", i + 1 == count ? Value() : items[i + 1]}});
}

}  // namespace

Error TemplateEvaluator::at_line(const TemplateNode& node, Error error) {
  if (error.message.starts_with("chat template line ")) return error;
  return std::move(error).context(fmt::format("chat template line {}", node.line));
}

TemplateEvaluator::~TemplateEvaluator() {
  // Values between two changed namespaces are at most kDepthMax deep. So once all these are empty,
  // no destructor runs deep, and none keeps itself alive.
  std::vector<Dict> contents;
  for (const auto& dict : changed_) contents.push_back(std::exchange(dict->items, {}));
}

Result<void> TemplateEvaluator::check_budget(const TemplateNode& node) {
  if (!budget_.spent()) return {};
  return refuse_template(node.line, budget_.what(), Errc::kResourceExhausted);
}

Result<void> TemplateEvaluator::step(const TemplateNode& node) {
  budget_.step();
  return check_budget(node);
}

Value TemplateEvaluator::variable(std::string_view name) {
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    if (i != 0 && i < macro_base_) i = 0;
    budget_.walk(scopes_[i].size());
    if (const Value* const found = find_key(scopes_[i], name)) return *found;
  }
  return find_function(name);
}

void TemplateEvaluator::assign(std::string name, Value value) {
  budget_.walk(scopes_.back().size());
  set_key(scopes_.back(), std::move(name), std::move(value));
}

Result<std::string> TemplateEvaluator::render(const TemplateNode& root) {
  IMEX_CHECK_OK(run(root));
  return std::move(out_);
}

Result<void> TemplateEvaluator::print(const TemplateNode& node, std::string_view text) {
  if (text.size() > kTemplateTextBytesMax - out_.size()) {
    return refuse_template(node.line, "more than 16 MiB of output", Errc::kResourceExhausted);
  }
  out_ += text;
  budget_.make(text.size());
  return check_budget(node);
}

Result<TemplateEvaluator::Flow> TemplateEvaluator::run_all(const std::vector<NodePtr>& nodes) {
  for (const NodePtr& node : nodes) {
    IMEX_TRY(const Flow flow, run(*node));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<TemplateEvaluator::Flow> TemplateEvaluator::run(const TemplateNode& node) {
  const Level level(*this);
  IMEX_CHECK_OK(level.check(node));
  IMEX_CHECK_OK(step(node));
  switch (node.kind) {
    case NodeKind::kBlock:
      return run_all(node.body);
    case NodeKind::kText:
      IMEX_CHECK_OK(print(node, node.text));
      return Flow::kNext;
    case NodeKind::kOutput: {
      IMEX_TRY(const Value value, value_of(*node.parts[0]));
      IMEX_CHECK_OK(print(node, text_of(value, budget_)));
      return Flow::kNext;
    }
    case NodeKind::kIf:
      return run_if(node);
    case NodeKind::kFor:
      return run_for(node);
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
    case NodeKind::kSet:
      IMEX_CHECK_OK(run_set(node));
      return Flow::kNext;
    case NodeKind::kSetField:
      IMEX_CHECK_OK(set_field(node));
      return Flow::kNext;
    case NodeKind::kMacro:
      assign(node.text, Value(Callable{.macro = &node, .function = {}}));
      return Flow::kNext;
    default:
      return refuse_template(node.line, "an expression where a statement belongs", Errc::kInternal);
  }
}

Result<TemplateEvaluator::Flow> TemplateEvaluator::run_if(const TemplateNode& node) {
  IMEX_TRY(const Value condition, value_of(*node.parts[0]));
  return run(*node.body[condition.truthy() ? 0 : 1]);
}

Result<void> TemplateEvaluator::bind(const TemplateNode& node, const Value& item) {
  if (node.names.size() == 1) {
    assign(node.names[0], item);
    return {};
  }
  const List* const parts = item.list_if();
  if (parts == nullptr || parts->size() != node.names.size()) {
    return refuse_template(node.line,
                           fmt::format("an element that is not {} values", node.names.size()),
                           Errc::kInvalidArgument);
  }
  for (std::size_t i = 0; i < parts->size(); ++i) assign(node.names[i], (*parts)[i]);
  return {};
}

/// What the loop walks, without what its condition leaves out.
Result<List> TemplateEvaluator::loop_items(const TemplateNode& node) {
  IMEX_TRY(const Value what, value_of(*node.parts[0]));
  auto items = elements(what, budget_);
  if (!items) return fail(at_line(node, std::move(items).error()));
  if (node.parts[1]->kind == NodeKind::kNothing) return items;
  List kept;
  for (const Value& item : *items) {
    IMEX_CHECK_OK(bind(node, item));
    IMEX_TRY(const Value good, value_of(*node.parts[1]));
    if (good.truthy()) kept.push_back(item);
  }
  return kept;
}

Result<TemplateEvaluator::Flow> TemplateEvaluator::run_for(const TemplateNode& node) {
  scopes_.emplace_back();
  auto items = loop_items(node);
  scopes_.pop_back();
  if (!items) return fail(std::move(items).error());
  if (items->empty()) return run(*node.body[1]);
  for (std::size_t i = 0; i < items->size(); ++i) {
    IMEX_CHECK_OK(step(node));
    scopes_.emplace_back();
    assign("loop", loop_facts(*items, i));
    const auto bound = bind(node, (*items)[i]);
    auto flow = bound ? run(*node.body[0]) : Result<Flow>(fail(bound.error()));
    scopes_.pop_back();
    if (!flow) return flow;
    if (*flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Value> TemplateEvaluator::capture(const TemplateNode& body) {
  std::string outer = std::exchange(out_, {});
  auto done = run(body);
  std::string inner = std::exchange(out_, std::move(outer));
  if (!done) return fail(std::move(done).error());
  return Value(std::move(inner));
}

Result<void> TemplateEvaluator::run_set(const TemplateNode& node) {
  IMEX_TRY(Value value, node.body.empty() ? value_of(*node.parts[0]) : capture(*node.body[0]));
  assign(node.names[0], std::move(value));
  return {};
}

/// Jinja takes namespaces only; a template that runs there assigns to no other dictionary.
Result<void> TemplateEvaluator::set_field(const TemplateNode& node) {
  IMEX_TRY(Value value, value_of(*node.parts[0]));
  const Value target = variable(node.names[0]);
  const std::shared_ptr<Mapping> fields = target.mapping();
  if (fields == nullptr) {
    return refuse_template(node.line, fmt::format("'{}' is no namespace", node.names[0]),
                           Errc::kInvalidArgument);
  }
  budget_.walk(fields->items.size());
  if (!fields->changed) changed_.push_back(fields);
  fields->changed = true;
  fields->depth = std::max(fields->depth, std::min(value.depth() + 1, RenderBudget::kDepthMax));
  set_key(fields->items, node.text, std::move(value));
  return check_budget(node);
}

}  // namespace imex::inference
