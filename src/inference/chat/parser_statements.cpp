#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "parser.hpp"
#include "parser_depth.hpp"

namespace imex::inference {

using NodeKind = TemplateNode::Kind;

Result<NodePtr> TemplateParser::parse() {
  IMEX_TRY(NodePtr root, block_until({}));
  if (next().kind != Kind::kEnd) return unexpected();
  return root;
}

Result<void> TemplateParser::end_block() {
  if (next().kind != Kind::kBlockEnd) return unexpected();
  ++at_;
  return {};
}

/// Statements up to a block that begins with one of `ends`; that word is the next token then.
Result<NodePtr> TemplateParser::block_until(Words ends) {
  const Depth depth(*this);
  IMEX_CHECK_OK(depth.check());
  NodePtr block = node(NodeKind::kBlock);
  while (next().kind != Kind::kEnd) {
    const TemplateToken token = next();
    ++at_;
    links_ = 0;
    if (token.kind == Kind::kText) {
      NodePtr text = node(NodeKind::kText);
      text->text = token.text;
      block->body.push_back(std::move(text));
    } else if (token.kind == Kind::kOutputBegin) {
      NodePtr output = node(NodeKind::kOutput);
      IMEX_TRY(NodePtr value, expression());
      if (next().kind != Kind::kOutputEnd) return unexpected();
      ++at_;
      output->parts.push_back(std::move(value));
      block->body.push_back(std::move(output));
    } else {
      const bool ended =
          std::ranges::any_of(ends, [&](std::string_view end) { return at_word(end); });
      if (ended) return block;
      IMEX_TRY(NodePtr made, statement());
      block->body.push_back(std::move(made));
    }
  }
  if (ends.size() != 0) {
    return refuse_template(block->line, fmt::format("'{}' is missing", *(ends.end() - 1)));
  }
  return block;
}

Result<NodePtr> TemplateParser::statement() {
  IMEX_TRY(const std::string word, expect_name());
  if (word == "if") return if_statement();
  if (word == "for") return for_statement();
  if (word == "set") return set_statement();
  if (word == "macro") return macro_statement();
  if (word == "generation") return generation_statement();
  if (word == "break" || word == "continue") {
    NodePtr made = node(word == "break" ? NodeKind::kBreak : NodeKind::kContinue);
    IMEX_CHECK_OK(end_block());
    return made;
  }
  --at_;
  return refuse_template(next().line, fmt::format("unknown block '{}'", word));
}

Result<NodePtr> TemplateParser::if_statement() {
  NodePtr made = node(NodeKind::kIf);
  IMEX_TRY(NodePtr condition, expression());
  IMEX_CHECK_OK(end_block());
  IMEX_TRY(NodePtr then, block_until({"elif", "else", "endif"}));
  NodePtr otherwise = node(NodeKind::kBlock);
  if (take_word("elif")) {
    const Depth depth(*this);
    IMEX_CHECK_OK(depth.check());
    IMEX_TRY(otherwise, if_statement());
  } else if (take_word("else")) {
    IMEX_CHECK_OK(end_block());
    IMEX_TRY(otherwise, block_until({"endif"}));
    ++at_;
    IMEX_CHECK_OK(end_block());
  } else {
    ++at_;
    IMEX_CHECK_OK(end_block());
  }
  made->parts.push_back(std::move(condition));
  made->body.push_back(std::move(then));
  made->body.push_back(std::move(otherwise));
  return made;
}

Result<NodePtr> TemplateParser::for_statement() {
  NodePtr made = node(NodeKind::kFor);
  do {
    IMEX_TRY(std::string name, expect_name());
    made->names.push_back(std::move(name));
  } while (take_sign(","));
  if (!take_word("in")) return unexpected();
  IMEX_TRY(NodePtr what, disjunction());  // an "if" after it filters
  NodePtr condition = node(NodeKind::kNothing);
  if (take_word("if")) {
    IMEX_TRY(condition, expression());
  }
  if (at_word("recursive")) return refuse_template(made->line, "a recursive loop");
  IMEX_CHECK_OK(end_block());
  IMEX_TRY(NodePtr each, block_until({"else", "endfor"}));
  NodePtr otherwise = node(NodeKind::kBlock);
  if (take_word("else")) {
    IMEX_CHECK_OK(end_block());
    IMEX_TRY(otherwise, block_until({"endfor"}));
  }
  ++at_;
  IMEX_CHECK_OK(end_block());
  made->parts.push_back(std::move(what));
  made->parts.push_back(std::move(condition));
  made->body.push_back(std::move(each));
  made->body.push_back(std::move(otherwise));
  return made;
}

Result<NodePtr> TemplateParser::set_statement() {
  NodePtr made = node(NodeKind::kSet);
  IMEX_TRY(std::string name, expect_name());
  made->names.push_back(std::move(name));
  if (take_sign(".")) {
    made->kind = NodeKind::kSetField;
    IMEX_TRY(made->text, expect_name());
  }
  if (take_sign("=")) {
    IMEX_TRY(NodePtr value, expression());
    made->parts.push_back(std::move(value));
    IMEX_CHECK_OK(end_block());
    return made;
  }
  if (made->kind == NodeKind::kSetField) return unexpected();
  IMEX_CHECK_OK(end_block());
  IMEX_TRY(NodePtr body, block_until({"endset"}));
  ++at_;
  IMEX_CHECK_OK(end_block());
  made->body.push_back(std::move(body));
  return made;
}

Result<NodePtr> TemplateParser::macro_statement() {
  NodePtr made = node(NodeKind::kMacro);
  IMEX_TRY(made->text, expect_name());
  IMEX_CHECK_OK(expect_sign("("));
  while (!take_sign(")")) {
    IMEX_TRY(std::string name, expect_name());
    made->names.push_back(std::move(name));
    NodePtr missing = node(NodeKind::kNothing);
    if (take_sign("=")) {
      IMEX_TRY(missing, expression());
    }
    made->parts.push_back(std::move(missing));
    if (!take_sign(",") && !at_sign(")")) return unexpected();
  }
  IMEX_CHECK_OK(end_block());
  IMEX_TRY(NodePtr body, block_until({"endmacro"}));
  ++at_;
  IMEX_CHECK_OK(end_block());
  made->body.push_back(std::move(body));
  return made;
}

/// {% generation %} marks what training learns from; it prints its contents.
Result<NodePtr> TemplateParser::generation_statement() {
  IMEX_CHECK_OK(end_block());
  IMEX_TRY(NodePtr body, block_until({"endgeneration"}));
  ++at_;
  IMEX_CHECK_OK(end_block());
  return body;
}

}  // namespace imex::inference
