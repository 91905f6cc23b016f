/// Tokens to a tree, by recursive descent in the order of Jinja's precedences.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "lexer.hpp"
#include "node.hpp"

namespace imex::inference {

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  /// The whole template. Errors: kUnsupported (syntax, filters, tests), kInvalidArgument (nesting).
  [[nodiscard]] Result<NodePtr> parse();

 private:
  using Kind = TemplateToken::Kind;
  using Words = std::initializer_list<std::string_view>;

  // Statements (parser_statements.cpp)
  Result<NodePtr> block_until(Words ends);
  Result<NodePtr> statement();
  Result<NodePtr> if_statement();
  Result<NodePtr> for_statement();
  Result<NodePtr> set_statement();
  Result<NodePtr> macro_statement();
  Result<NodePtr> generation_statement();
  Result<void> end_block();

  // Expressions (parser.cpp)
  Result<NodePtr> expression();  ///< with "a if b else c"
  Result<NodePtr> disjunction();
  Result<NodePtr> conjunction();
  Result<NodePtr> negation();
  Result<NodePtr> comparison();
  Result<NodePtr> sum();
  Result<NodePtr> concatenation();
  Result<NodePtr> product();
  Result<NodePtr> unary(bool with_filters);
  Result<NodePtr> primary();
  Result<NodePtr> list_of(std::string_view close);
  Result<NodePtr> dict();
  Result<NodePtr> postfix(NodePtr value);
  Result<NodePtr> subscript(NodePtr value);
  Result<NodePtr> filters(NodePtr value);
  Result<NodePtr> filter(NodePtr value);
  Result<NodePtr> test(NodePtr value);
  [[nodiscard]] bool at_test_argument() const noexcept;
  Result<void> arguments(TemplateNode& call);

  [[nodiscard]] const TemplateToken& next() const noexcept { return tokens_[at_]; }
  [[nodiscard]] bool at_sign(std::string_view sign) const noexcept;
  [[nodiscard]] bool at_word(std::string_view word) const noexcept;
  bool take_sign(std::string_view sign) noexcept;
  bool take_word(std::string_view word) noexcept;
  Result<void> expect_sign(std::string_view sign);
  Result<std::string> expect_name();
  [[nodiscard]] NodePtr node(TemplateNode::Kind kind) const;
  [[nodiscard]] NodePtr binary(TemplateNode::Kind kind, std::string_view sign, NodePtr left,
                               NodePtr right) const;
  [[nodiscard]] tl::unexpected<Error> unexpected() const;

  /// Chains ("a + b + c") make deep trees without deep recursion here: bounded per tag.
  [[nodiscard]] Result<void> count_link();

  /// Counts how deep the parser is inside itself.
  class Depth;

  std::vector<TemplateToken> tokens_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
  unsigned links_ = 0;
};

}  // namespace imex::inference
