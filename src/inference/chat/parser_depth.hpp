/// Bounds recursion of the parser, and with it that of everything that walks the tree.
#pragma once

#include "parser.hpp"

namespace imex::inference {

class TemplateParser::Depth {
 public:
  explicit Depth(TemplateParser& parser) noexcept : parser_(parser) { ++parser_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --parser_.depth_; }
  [[nodiscard]] Result<void> check() const {
    if (parser_.depth_ <= kMax) return {};
    return refuse_template(parser_.next().line, "nested deeper than 100", Errc::kInvalidArgument);
  }

 private:
  static constexpr unsigned kMax = 100;
  TemplateParser& parser_;
};

}  // namespace imex::inference
