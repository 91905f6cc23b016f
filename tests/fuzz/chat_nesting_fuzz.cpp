// Templates made of brackets, blocks and operators inside each other, one piece for each byte: deep
// in ways that random text never is. Each is refused, or rendered within its bounds.
#include <cstdint>
#include <string>
#include <string_view>

#include "inference/chat/chat_template.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

struct Piece {
  std::string_view before, after;
};

/// Around an expression.
constexpr Piece kExpressions[] = {
    {"(", ")"},           {"[", "]"},       {"{'k': ", "}"},
    {"not ", ""},         {"-", ""},        {"1 ~ ", ""},
    {"", " ~ x"},         {"", " | list"},  {"", " | tojson(indent=1)"},
    {"", "[0]"},          {"", ".k"},       {"", "[1:]"},
    {"x if x else ", ""}, {"", " is in x"}, {"[ns, ", ", ns] * 1"},
    {"m(", ")"},          {"", " == ns"},   {"x[", "]"}};
/// Around statements.
constexpr Piece kStatements[] = {{"{% if x %}", "{% endif %}"},
                                 {"{% if not x %}{% elif x %}", "{% endif %}"},
                                 {"{% for i in x %}", "{% endfor %}"},
                                 {"{% macro m(a) %}", "{% endmacro %}"},
                                 {"{% set y %}", "{% endset %}{{ y }}"},
                                 {"{% generation %}", "{% endgeneration %}"},
                                 {"{% set ns.x = ns %}", ""},
                                 {"{% set ns.x = [ns.x, ns.x] %}", "{{ ns.x }}"},
                                 {"{% set x = x + x %}", ""}};

template <std::size_t kCount>
std::string wrapped(std::string text, const Piece (&pieces)[kCount], std::uint8_t choice) {
  const Piece& piece = pieces[choice % kCount];
  text.insert(0, piece.before).append(piece.after);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex::inference;
  constexpr std::size_t kPiecesMax = 3000;
  if (size > kPiecesMax) size = kPiecesMax;
  // The high bit tells what stands around what: first an expression grows, then statements around
  // it.
  std::string text = "x";
  std::size_t i = 0;
  for (; i < size && data[i] < 0x80; ++i) text = wrapped(std::move(text), kExpressions, data[i]);
  text = "{{ " + text + " }}";
  for (; i < size; ++i) text = wrapped(std::move(text), kStatements, data[i]);
  text.insert(0, "{% set ns = namespace(x=[1]) %}{% set x = [1, 'a', {'k': 2}] %}");
  const auto made = ChatTemplate::parse(text);
  if (made) static_cast<void>(made->render(ChatInput{}));
  return 0;
}
