#include "lexer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "strings.hpp"

namespace imex::inference {

namespace {

using Kind = TemplateToken::Kind;

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Longer ones first.
constexpr std::array<std::string_view, 25> kSigns{"==", "!=", "<=", ">=", "//", "**", "+", "-", "*",
                                                  "/",  "%",  "~",  "<",  ">",  "=",  "|", ".", ",",
                                                  ":",  "(",  ")",  "[",  "]",  "{",  "}"};

class Lexer {
 public:
  explicit Lexer(std::string text) : source_(std::move(text)), text_(source_) {}

  Result<std::vector<TemplateToken>> run() {
    while (at_ < text_.size()) {
      const std::size_t tag = next_tag();
      add_text(tag);
      if (tag == text_.size()) break;
      IMEX_CHECK_OK(read_tag());
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::size_t next_tag() const noexcept {
    std::size_t tag = text_.find('{', at_);
    while (tag != std::string_view::npos) {
      const char second = tag + 1 < text_.size() ? text_[tag + 1] : ' ';
      if (second == '{' || second == '%' || second == '#') return tag;
      tag = text_.find('{', tag + 1);
    }
    return text_.size();
  }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(std::size_t end) {
    const auto skipped = text_.substr(at_, end - at_);
    line_ += static_cast<std::uint32_t>(std::ranges::count(skipped, '\n'));
    at_ = end;
  }

  /// The text up to the tag, without what the tags on both sides take from it.
  void add_text(std::size_t tag) {
    std::string_view text = text_.substr(at_, tag - at_);
    if (strip_next_) {
      text.remove_prefix(leading_space(text));
    } else if (trim_next_ && text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    if (tag < text_.size()) {
      const char modifier = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
      if (modifier == '-') {
        text.remove_suffix(trailing_space(text));
      } else if (text_[tag + 1] != '{' && modifier != '+') {
        strip_indent(text, tag);
      }
    }
    if (!text.empty()) add(Kind::kText, std::string(text));
    advance(tag);
  }

  /// A block that is the first thing on its line takes the white space before it.
  void strip_indent(std::string_view& text, std::size_t tag) const {
    const std::size_t start = tag - text.size();
    const std::size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if (line == 0 && start != 0 && text_[start - 1] != '\n') return;
    if (trailing_space(text.substr(line)) == text.size() - line) text = text.substr(0, line);
  }

  Result<void> read_tag() {
    const char second = text_[at_ + 1];
    if (second == '#') return read_comment();
    const bool block = second == '%';
    add(block ? Kind::kBlockBegin : Kind::kOutputBegin, "");
    advance(at_ + 2);
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) advance(at_ + 1);
    const std::string_view close = block ? "%}" : "}}";
    unsigned braces = 0;  // a dictionary may end in }} as well
    for (;;) {
      advance(at_ + leading_space(text_.substr(at_)));
      const std::string_view rest = text_.substr(at_);
      const bool modified = rest.size() > 2 && (rest[0] == '-' || rest[0] == '+') &&
                            rest.substr(1).starts_with(close);
      if (braces == 0 && (modified || rest.starts_with(close))) {
        end_tag(block, modified ? rest[0] : ' ', modified ? 3 : 2);
        return {};
      }
      if (rest.empty()) return refuse_template(line_, "a tag does not end");
      IMEX_CHECK_OK(read_token());
      if (tokens_.back().kind == Kind::kSign && tokens_.back().text == "{") ++braces;
      if (tokens_.back().kind == Kind::kSign && tokens_.back().text == "}" && braces != 0) --braces;
    }
  }

  void end_tag(bool block, char modifier, std::size_t bytes) {
    add(block ? Kind::kBlockEnd : Kind::kOutputEnd, "");
    strip_next_ = modifier == '-';
    trim_next_ = block && modifier != '+';
    advance(at_ + bytes);
  }

  Result<void> read_comment() {
    const std::size_t end = text_.find("#}", at_ + 2);
    if (end == std::string_view::npos) return refuse_template(line_, "a comment does not end");
    strip_next_ = text_[end - 1] == '-' && end > at_ + 2;
    trim_next_ = text_[end - 1] != '+';
    advance(end + 2);
    return {};
  }

  Result<void> read_token() {
    const std::string_view rest = text_.substr(at_);
    const char first = rest.front();
    if (first == '\'' || first == '"') return read_string(first);
    if (is_digit(first)) return read_number(rest);
    if (is_letter(first)) {
      const auto end =
          std::ranges::find_if_not(rest, [](char c) { return is_letter(c) || is_digit(c); });
      add(Kind::kName, std::string(rest.begin(), end));
      advance(at_ + tokens_.back().text.size());
      return {};
    }
    for (const std::string_view sign : kSigns) {
      if (!rest.starts_with(sign)) continue;
      add(Kind::kSign, std::string(sign));
      advance(at_ + sign.size());
      return {};
    }
    return refuse_template(line_, fmt::format("unexpected '{}'", first));
  }

  Result<void> read_number(std::string_view rest) {
    std::size_t end = 0;
    while (end < rest.size() && is_digit(rest[end])) ++end;
    const bool real = end + 1 < rest.size() && rest[end] == '.' && is_digit(rest[end + 1]);
    if (real) {
      ++end;
      while (end < rest.size() && is_digit(rest[end])) ++end;
    }
    add(real ? Kind::kFloat : Kind::kInteger, std::string(rest.substr(0, end)));
    advance(at_ + end);
    return {};
  }

  Result<void> read_string(char quote) {
    std::string out;
    std::size_t at = at_ + 1;
    for (; at < text_.size() && text_[at] != quote; ++at) {
      if (text_[at] != '\\' || at + 1 == text_.size()) {
        out += text_[at];
        continue;
      }
      constexpr std::string_view kEscapes = "nrt\\'\"", kMeanings = "\n\r\t\\'\"";
      const char escaped = text_[++at];
      const std::size_t known = kEscapes.find(escaped);
      if (known == std::string_view::npos) {
        return refuse_template(line_, fmt::format("escape '\\{}' in a string", escaped));
      }
      out += kMeanings[known];
    }
    if (at == text_.size()) return refuse_template(line_, "a string does not end");
    add(Kind::kString, std::move(out));
    advance(at + 1);
    return {};
  }

  const std::string source_;
  const std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool strip_next_ = false;  ///< the last tag ended in -}
  bool trim_next_ = false;   ///< the last tag takes the line end after it
  std::vector<TemplateToken> tokens_;
};

/// Every line ends in \n alone, and the last one in nothing: so Jinja reads a template.
std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += text[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace

tl::unexpected<Error> refuse_template(std::uint32_t line, std::string_view what, Errc code) {
  return fail(code, fmt::format("chat template line {}: {}", line, what));
}

Result<std::vector<TemplateToken>> tokenize_template(std::string_view text) {
  return Lexer(with_plain_line_ends(text)).run();
}

}  // namespace imex::inference
