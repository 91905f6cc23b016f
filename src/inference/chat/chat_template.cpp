#include "inference/chat/chat_template.hpp"

#include <utility>

#include <fmt/format.h>

#include "evaluator.hpp"
#include "lexer.hpp"
#include "parser.hpp"

namespace imex::inference {

namespace {

constexpr std::size_t kTemplateBytesMax = std::size_t{1} << 20U;

Value message_value(const ChatMessage& message) {
  return Value::dict({{"role", Value(message.role)}, {"content", Value(message.content)}});
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view text) {
  if (text.size() > kTemplateBytesMax) {
    return fail(Errc::kInvalidArgument, "a chat template of more than 1 MiB");
  }
  IMEX_TRY(auto tokens, tokenize_template(text));
  IMEX_TRY(NodePtr root, TemplateParser(std::move(tokens)).parse());
  return ChatTemplate(std::shared_ptr<const TemplateNode>(std::move(root)));
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  List messages;
  for (const ChatMessage& message : input.messages) messages.push_back(message_value(message));
  // Hugging Face gives tools and documents always, as none where there are none.
  Dict globals{{"messages", Value::list(std::move(messages))},
               {"tools", Value(None{})},
               {"documents", Value(None{})},
               {"add_generation_prompt", Value(input.add_generation_prompt)},
               {"bos_token", Value(input.begin_token)},
               {"eos_token", Value(input.end_token)}};
  for (const auto& [name, json] : input.extra.items()) {
    auto value = Value::from_json(json);
    if (!value) return fail(std::move(value).error().context(fmt::format("'{}'", name)));
    set_key(globals, name, std::move(*value));  // messages may have more than role and content
  }
  return TemplateEvaluator(std::move(globals), input.now).render(*root_);
}

}  // namespace imex::inference
