/// Chat templates: the Jinja text that a model carries, rendered as its trainers rendered it
/// (blocks trim their line, as in transformers). A small interpreter: what it does not know is
/// refused by name and line when the template is parsed, never guessed.
///
///     IMEX_TRY(const auto chat, ChatTemplate::parse(*model.chat_template()));
///     IMEX_TRY(const auto prompt, chat.render({.messages = {{"user", "Hello"}}}));
///
/// Known: if, for (with loop.*, else, a condition, break, continue), set, macro, generation; the
/// operators; filters, tests, methods and functions of chat/builtins.cpp; slices.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace imex::inference {

struct ChatMessage {
  std::string role, content;
};

/// What a template sees. `extra` are further variables (an object): "tools", "enable_thinking";
/// they win over those below. "tools" and "documents" are none where `extra` has none.
struct ChatInput {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  std::string begin_token, end_token;  ///< texts of bos_token and eos_token
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();
  /// For strftime_now; UTC.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

struct TemplateNode;

/// Immutable, so threads may share one; copies share the tree.
class ChatTemplate {
 public:
  /// Errors: kUnsupported (syntax, filter, test or method that is not known), kInvalidArgument
  /// (over 1 MiB, nested deeper than 100), each with its line.
  [[nodiscard]] static Result<ChatTemplate> parse(std::string_view text);

  /// Errors: kInvalidArgument (what the template itself raises; a type that an operation does not
  /// take; an `extra` nested deeper than 100 or with a whole number of more than 64 bits),
  /// kUnsupported (an argument that a filter does not have), kResourceExhausted, each with its
  /// line. Bounds: 1,000,000 steps, 16 MiB for one text, 128 MiB for all texts and lists made,
  /// values 100 deep, 32 macros and 800 expressions inside each other (2.5 MiB of stack at most).
  [[nodiscard]] Result<std::string> render(const ChatInput& input) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const TemplateNode> root) : root_(std::move(root)) {}
  std::shared_ptr<const TemplateNode> root_;
};

}  // namespace imex::inference
