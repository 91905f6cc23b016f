#include "inference/chat/chat_template.hpp"

#include <utility>

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
  Dict globals{{"messages", Value::list(std::move(messages))},
               {"add_generation_prompt", Value(input.add_generation_prompt)},
               {"bos_token", Value(input.begin_token)},
               {"eos_token", Value(input.end_token)}};
  const bool own_messages = input.extra.contains("messages");
  if (own_messages) globals.erase(globals.begin());  // messages with more than role and content
  for (const auto& [name, value] : input.extra.items())
    globals.emplace_back(name, Value::from_json(value));
  return TemplateEvaluator(std::move(globals), input.now).render(*root_);
}

}  // namespace imex::inference
