/// Bounds recursion of the evaluator: trees inside macros inside trees.
#pragma once

#include "evaluator.hpp"
#include "lexer.hpp"

namespace imex::inference {

class TemplateEvaluator::Level {
 public:
  explicit Level(TemplateEvaluator& evaluator) noexcept : evaluator_(evaluator) {
    ++evaluator_.level_;
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --evaluator_.level_; }
  [[nodiscard]] Result<void> check(const TemplateNode& node) const {
    if (evaluator_.level_ <= kMax) return {};
    return refuse_template(node.line, "expressions and blocks deeper than 800 inside each other",
                           Errc::kResourceExhausted);
  }

 private:
  /// A level takes up to 3 KiB of stack, under AddressSanitizer; 8 MiB are usual.
  static constexpr unsigned kMax = 800;
  TemplateEvaluator& evaluator_;
};

}  // namespace imex::inference
