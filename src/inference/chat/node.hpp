/// The tree of a template. One kind of node for all: what `parts` and `body` mean stands at the
/// kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "value.hpp"

namespace imex::inference {

struct TemplateNode {
  enum class Kind : std::uint8_t {
    // Expressions
    kLiteral,    ///< `literal`
    kName,       ///< `text`
    kList,       ///< parts
    kDict,       ///< parts: key, value, key, value, ...
    kAttribute,  ///< parts[0].text
    kIndex,      ///< parts[0][parts[1]]
    kSlice,      ///< parts[0][parts[1]:parts[2]:parts[3]]; absent ones are kNothing
    kNothing,
    kCall,         ///< parts[0](parts[1], ..., named)
    kFilter,       ///< parts[0] | text(parts[1], ..., named)
    kTest,         ///< parts[0] is text(parts[1], ...)
    kNot,          ///< not parts[0]
    kNegate,       ///< -parts[0]
    kBinary,       ///< parts[0] text parts[1]: + - * / // % ~ and or
    kCompare,      ///< parts[0] text parts[1]: == != < <= > >= in "not in"
    kConditional,  ///< parts[1] if parts[0] else parts[2]
    // Statements
    kBlock,   ///< body
    kText,    ///< prints `text`
    kOutput,  ///< prints parts[0]
    kIf,      ///< parts: condition; body: then, else
    kFor,     ///< names: variables; parts: what, condition (or kNothing); body: each, else
    kBreak,
    kContinue,
    kSet,       ///< names[0] = parts[0], or the output of body[0]
    kSetField,  ///< names[0].text = parts[0]
    kMacro,     ///< text(names = parts): body[0]; parts without default are kNothing
  };
  Kind kind = Kind::kNothing;
  std::uint32_t line = 0;
  std::string text;
  Value literal{};
  std::vector<std::string> names;
  std::vector<std::unique_ptr<TemplateNode>> parts;
  std::vector<std::pair<std::string, std::unique_ptr<TemplateNode>>> named;
  std::vector<std::unique_ptr<TemplateNode>> body;
};

using NodePtr = std::unique_ptr<TemplateNode>;

}  // namespace imex::inference
