#include "parser.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "builtins.hpp"
#include "parser_depth.hpp"

namespace imex::inference {

using NodeKind = TemplateNode::Kind;

bool TemplateParser::at_sign(std::string_view sign) const noexcept {
  return next().kind == Kind::kSign && next().text == sign;
}
bool TemplateParser::at_word(std::string_view word) const noexcept {
  return next().kind == Kind::kName && next().text == word;
}
bool TemplateParser::take_sign(std::string_view sign) noexcept {
  const bool there = at_sign(sign);
  if (there) ++at_;
  return there;
}
bool TemplateParser::take_word(std::string_view word) noexcept {
  const bool there = at_word(word);
  if (there) ++at_;
  return there;
}

Result<void> TemplateParser::expect_sign(std::string_view sign) {
  if (take_sign(sign)) return {};
  return unexpected();
}

Result<std::string> TemplateParser::expect_name() {
  if (next().kind != Kind::kName) return unexpected();
  return tokens_[at_++].text;
}

tl::unexpected<Error> TemplateParser::unexpected() const {
  const TemplateToken& token = next();
  const bool shown = !token.text.empty() && token.kind != Kind::kText;
  return refuse_template(token.line, shown ? fmt::format("unexpected '{}'", token.text)
                                           : "a tag ends too early, or is missing");
}

NodePtr TemplateParser::node(NodeKind kind) const {
  auto made = std::make_unique<TemplateNode>();
  made->kind = kind;
  made->line = next().line;
  return made;
}

NodePtr TemplateParser::binary(NodeKind kind, std::string_view sign, NodePtr left,
                               NodePtr right) const {
  NodePtr made = node(kind);
  made->line = left->line;
  made->text = sign;
  made->parts.push_back(std::move(left));
  made->parts.push_back(std::move(right));
  return made;
}

Result<void> TemplateParser::count_link() {
  constexpr unsigned kLinksMax = 2000;
  if (++links_ <= kLinksMax) return {};
  return refuse_template(next().line, fmt::format("an expression of more than {} parts", kLinksMax),
                         Errc::kInvalidArgument);
}

Result<NodePtr> TemplateParser::expression() {
  const Depth depth(*this);
  IMEX_CHECK_OK(depth.check());
  IMEX_TRY(NodePtr value, disjunction());
  while (take_word("if")) {
    IMEX_CHECK_OK(count_link());
    NodePtr choice = node(NodeKind::kConditional);
    IMEX_TRY(NodePtr condition, disjunction());
    NodePtr otherwise = node(NodeKind::kLiteral);  // undefined
    if (take_word("else")) {
      IMEX_TRY(otherwise, expression());
    }
    choice->parts.push_back(std::move(condition));
    choice->parts.push_back(std::move(value));
    choice->parts.push_back(std::move(otherwise));
    value = std::move(choice);
  }
  return value;
}

Result<NodePtr> TemplateParser::disjunction() {
  IMEX_TRY(NodePtr left, conjunction());
  while (take_word("or")) {
    IMEX_CHECK_OK(count_link());
    IMEX_TRY(NodePtr right, conjunction());
    left = binary(NodeKind::kBinary, "or", std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> TemplateParser::conjunction() {
  IMEX_TRY(NodePtr left, negation());
  while (take_word("and")) {
    IMEX_CHECK_OK(count_link());
    IMEX_TRY(NodePtr right, negation());
    left = binary(NodeKind::kBinary, "and", std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> TemplateParser::negation() {
  const Depth depth(*this);
  IMEX_CHECK_OK(depth.check());
  if (!take_word("not")) return comparison();
  NodePtr made = node(NodeKind::kNot);
  IMEX_TRY(NodePtr value, negation());
  made->parts.push_back(std::move(value));
  return made;
}

Result<NodePtr> TemplateParser::comparison() {
  constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  IMEX_TRY(NodePtr left, sum());
  bool chained = false;
  for (bool more = true; more;) {
    std::string_view sign;
    for (const std::string_view one : kSigns) {
      if (sign.empty() && take_sign(one)) sign = one;
    }
    if (sign.empty() && take_word("in")) sign = "in";
    const bool negated = sign.empty() && at_word("not") && at_ + 1 < tokens_.size() &&
                         tokens_[at_ + 1].kind == Kind::kName && tokens_[at_ + 1].text == "in";
    if (negated) {
      at_ += 2;
      sign = "not in";
    }
    more = !sign.empty();
    if (!more) break;
    if (chained) return refuse_template(left->line, "a chain of comparisons");
    chained = true;
    IMEX_TRY(NodePtr right, sum());
    left = binary(NodeKind::kCompare, sign, std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> TemplateParser::sum() {
  IMEX_TRY(NodePtr left, concatenation());
  while (at_sign("+") || at_sign("-")) {
    IMEX_CHECK_OK(count_link());
    const std::string sign = tokens_[at_++].text;
    IMEX_TRY(NodePtr right, concatenation());
    left = binary(NodeKind::kBinary, sign, std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> TemplateParser::concatenation() {
  IMEX_TRY(NodePtr left, product());
  while (take_sign("~")) {
    IMEX_CHECK_OK(count_link());
    IMEX_TRY(NodePtr right, product());
    left = binary(NodeKind::kBinary, "~", std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> TemplateParser::product() {
  IMEX_TRY(NodePtr left, unary(true));
  while (at_sign("*") || at_sign("/") || at_sign("//") || at_sign("%")) {
    IMEX_CHECK_OK(count_link());
    const std::string sign = tokens_[at_++].text;
    IMEX_TRY(NodePtr right, unary(true));
    left = binary(NodeKind::kBinary, sign, std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> TemplateParser::unary(bool with_filters) {
  const Depth depth(*this);
  IMEX_CHECK_OK(depth.check());
  NodePtr value;
  if (take_sign("-")) {
    value = node(NodeKind::kNegate);
    IMEX_TRY(NodePtr operand, unary(false));
    value->parts.push_back(std::move(operand));
  } else if (take_sign("+")) {
    IMEX_TRY(value, unary(false));
  } else {
    IMEX_TRY(value, primary());
  }
  IMEX_TRY(value, postfix(std::move(value)));
  if (!with_filters) return value;
  return filters(std::move(value));
}

Result<NodePtr> TemplateParser::primary() {
  const TemplateToken token = next();
  NodePtr made = node(NodeKind::kLiteral);
  if (take_sign("(")) return list_of(")");
  if (take_sign("[")) return list_of("]");
  if (take_sign("{")) return dict();
  ++at_;
  if (token.kind == Kind::kString) {
    std::string text = token.text;
    while (next().kind == Kind::kString) text += tokens_[at_++].text;
    made->literal = std::move(text);
  } else if (token.kind == Kind::kInteger) {
    std::int64_t value = 0;
    const auto end =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (end.ec != std::errc{}) return refuse_template(token.line, "a number that is too large");
    made->literal = value;
  } else if (token.kind == Kind::kFloat) {
    double value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    made->literal = value;
  } else if (token.kind != Kind::kName) {
    --at_;
    return unexpected();
  } else if (token.text == "true" || token.text == "True") {
    made->literal = true;
  } else if (token.text == "false" || token.text == "False") {
    made->literal = false;
  } else if (token.text == "none" || token.text == "None") {
    made->literal = None{};
  } else {
    made->kind = NodeKind::kName;
    made->text = token.text;
  }
  return made;
}

/// After the bracket. Parentheses around one value without a comma are only parentheses.
Result<NodePtr> TemplateParser::list_of(std::string_view close) {
  NodePtr made = node(NodeKind::kList);
  bool comma = false;
  while (!take_sign(close)) {
    IMEX_TRY(NodePtr item, expression());
    made->parts.push_back(std::move(item));
    const bool more = take_sign(",");
    comma = comma || more;
    if (!more && !at_sign(close)) return unexpected();
  }
  if (close == ")" && made->parts.size() == 1 && !comma) return std::move(made->parts.front());
  return made;
}

Result<NodePtr> TemplateParser::dict() {
  NodePtr made = node(NodeKind::kDict);
  while (!take_sign("}")) {
    IMEX_TRY(NodePtr key, expression());
    IMEX_CHECK_OK(expect_sign(":"));
    IMEX_TRY(NodePtr value, expression());
    made->parts.push_back(std::move(key));
    made->parts.push_back(std::move(value));
    if (!take_sign(",") && !at_sign("}")) return unexpected();
  }
  return made;
}

Result<NodePtr> TemplateParser::postfix(NodePtr value) {
  for (;;) {
    IMEX_CHECK_OK(count_link());
    if (take_sign(".")) {
      NodePtr made = node(NodeKind::kAttribute);
      IMEX_TRY(made->text, expect_name());
      made->parts.push_back(std::move(value));
      value = std::move(made);
    } else if (take_sign("[")) {
      IMEX_TRY(value, subscript(std::move(value)));
    } else if (at_sign("(")) {
      NodePtr made = node(NodeKind::kCall);
      if (value->kind == NodeKind::kAttribute && !is_known_method(value->text)) {
        return refuse_template(next().line, fmt::format("unknown method '{}'", value->text));
      }
      made->parts.push_back(std::move(value));
      IMEX_CHECK_OK(arguments(*made));
      value = std::move(made);
    } else {
      return value;
    }
  }
}

Result<NodePtr> TemplateParser::subscript(NodePtr value) {
  NodePtr made = node(NodeKind::kSlice);
  made->parts.push_back(std::move(value));
  for (;;) {
    if (at_sign(":") || at_sign("]")) {
      made->parts.push_back(node(NodeKind::kNothing));
    } else {
      IMEX_TRY(NodePtr bound, expression());
      made->parts.push_back(std::move(bound));
    }
    if (take_sign("]")) break;
    IMEX_CHECK_OK(expect_sign(":"));
  }
  if (made->parts.size() == 2) {
    if (made->parts[1]->kind == NodeKind::kNothing)
      return refuse_template(made->line, "an empty index");
    made->kind = NodeKind::kIndex;
    return made;
  }
  if (made->parts.size() > 4)
    return refuse_template(made->line, "a slice of more than three parts");
  while (made->parts.size() < 4) made->parts.push_back(node(NodeKind::kNothing));
  return made;
}

Result<NodePtr> TemplateParser::filters(NodePtr value) {
  for (;;) {
    IMEX_CHECK_OK(count_link());
    if (take_sign("|")) {
      IMEX_TRY(value, filter(std::move(value)));
    } else if (take_word("is")) {
      IMEX_TRY(value, test(std::move(value)));
    } else {
      return postfix(std::move(value));
    }
  }
}

Result<NodePtr> TemplateParser::filter(NodePtr value) {
  NodePtr made = node(NodeKind::kFilter);
  IMEX_TRY(made->text, expect_name());
  if (!is_known_filter(made->text)) {
    return refuse_template(made->line, fmt::format("unknown filter '{}'", made->text));
  }
  made->parts.push_back(std::move(value));
  if (at_sign("(")) IMEX_CHECK_OK(arguments(*made));
  return made;
}

/// "is in names", "is divisibleby 3": one value without parentheses, and no word that goes on.
bool TemplateParser::at_test_argument() const noexcept {
  constexpr std::string_view kGoOn[] = {"else", "or", "and", "if", "is", "not", "in"};
  if (next().kind == Kind::kString || next().kind == Kind::kInteger ||
      next().kind == Kind::kFloat) {
    return true;
  }
  if (next().kind == Kind::kName) {
    return std::find(std::begin(kGoOn), std::end(kGoOn), next().text) == std::end(kGoOn);
  }
  return at_sign("[") || at_sign("{");
}

Result<NodePtr> TemplateParser::test(NodePtr value) {
  const bool negated = take_word("not");
  NodePtr made = node(NodeKind::kTest);
  IMEX_TRY(made->text, expect_name());
  if (!is_known_test(made->text)) {
    return refuse_template(made->line, fmt::format("unknown test '{}'", made->text));
  }
  made->parts.push_back(std::move(value));
  if (at_sign("(")) {
    IMEX_CHECK_OK(arguments(*made));
  } else if (at_test_argument()) {
    IMEX_TRY(NodePtr argument, primary());
    IMEX_TRY(argument, postfix(std::move(argument)));
    made->parts.push_back(std::move(argument));
  }
  if (!negated) return made;
  NodePtr opposite = node(NodeKind::kNot);
  opposite->parts.push_back(std::move(made));
  return opposite;
}

/// "(a, b, name=c)" onto the parts and named of `call`.
Result<void> TemplateParser::arguments(TemplateNode& call) {
  IMEX_CHECK_OK(expect_sign("("));
  while (!take_sign(")")) {
    const bool named = next().kind == Kind::kName && tokens_[at_ + 1].kind == Kind::kSign &&
                       tokens_[at_ + 1].text == "=";
    std::string name;
    if (named) {
      name = next().text;
      at_ += 2;
    }
    IMEX_TRY(NodePtr value, expression());
    if (named) {
      call.named.emplace_back(std::move(name), std::move(value));
    } else if (call.named.empty()) {
      call.parts.push_back(std::move(value));
    } else {
      return refuse_template(call.line, "an argument after named ones");
    }
    if (!take_sign(",") && !at_sign(")")) return unexpected();
  }
  return {};
}

}  // namespace imex::inference
