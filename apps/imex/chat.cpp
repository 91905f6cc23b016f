// A conversation with a model, on a terminal or through pipes.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "answer.hpp"
#include "base/units.hpp"
#include "running_model.hpp"

namespace imex::cli {
namespace {

using inference::ChatMessage;

constexpr std::size_t kLineBytesMax = std::size_t{1} << 20U;
constexpr int kLookMs = 200;  // for Ctrl-C that came just before a wait
constexpr const char* kHelp =
    "  /clear    forget the conversation so far\n"
    "  /help     this list\n"
    "  /quit     end; so do Ctrl-D, and Ctrl-C while nothing is being written\n";

/// Lines of standard input; Ctrl-C ends them.
class Lines {
 public:
  /// Without its end; nothing at the end of the input. Errors: kInvalidArgument (too long).
  Result<std::optional<std::string>> next() {
    for (;;) {
      if (const std::size_t end = held_.find('\n'); end != std::string::npos) return take(end + 1);
      if (held_.size() > kLineBytesMax) {
        return fail(Errc::kInvalidArgument,
                    fmt::format("a message is longer than {}", format_size(kLineBytesMax)));
      }
      if (interrupted()) return std::optional<std::string>();
      if (ended_) return held_.empty() ? std::optional<std::string>() : take(held_.size());
      read_more();
    }
  }

 private:
  std::optional<std::string> take(std::size_t size) {
    std::string line = held_.substr(0, size);
    held_.erase(0, size);
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    return line;
  }
  void read_more() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, kLookMs) <= 0) return;  // a signal or nothing: look again
    std::array<char, 4096> piece;
    const ssize_t size = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (size > 0) held_.append(piece.data(), static_cast<std::size_t>(size));
    if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  }

  std::string held_;
  bool ended_ = false;
};

class Chat {
 public:
  Chat(const Global& global, const ChatOptions& options, RunningModel& model)
      : global_(global),
        options_(options),
        model_(model),
        terminal_(::isatty(STDIN_FILENO) == 1),
        seed_(options.generate.seed ? *options.generate.seed : std::random_device{}()) {
    clear();
  }

  Result<void> go() {
    if (terminal_ && !global_.quiet) {
      fmt::print(stderr, "{} over {} rank(s); /help for what can be typed, Ctrl-D to end\n",
                 model_.name(), model_.plan().ranks());
    }
    Lines lines;
    for (;;) {
      if (terminal_) fmt::print(stderr, "> ");
      IMEX_TRY(const auto line, lines.next());
      if (!line) break;
      if (line->empty()) continue;
      if (line->starts_with('/') && terminal_) {
        if (*line == "/quit" || *line == "/exit") return {};
        obey(*line);
        continue;
      }
      const auto done = answer(*line);
      if (done) continue;
      // What one message cannot do, the next one may; a lost rank is lost.
      if (!terminal_ || done.error().code != Errc::kInvalidArgument) return done;
      fmt::print(stderr, "imex: {}\n", done.error().to_string());
    }
    if (terminal_) fmt::print(stderr, "\n");
    return {};
  }

 private:
  void clear() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  void obey(const std::string& command) {
    if (command == "/clear") {
      clear();
    } else {
      if (command != "/help") fmt::print(stderr, "'{}' is not known\n", command);
      fmt::print(stderr, "{}", kHelp);
    }
  }

  Result<void> answer(const std::string& text) {
    std::vector<ChatMessage> asked = messages_;
    asked.push_back({"user", text});
    IMEX_TRY(const auto prompt, fit(asked));
    GenerateOptions bounded = options_.generate;
    bounded.max_tokens = std::min(bounded.max_tokens,
                                  model_.context_max() - static_cast<std::uint32_t>(prompt.size()));
    Answer answer(global_, bounded, model_, std::chrono::steady_clock::now());
    answer.stop_when(interrupted);
    IMEX_CHECK_OK(answer.run(prompt, seed_, true));
    forget_interrupt();
    messages_ = std::move(asked);
    messages_.push_back({"assistant", answer.text()});
    if (global_.format != Format::kTable) return print_answer(global_, answer);
    if (options_.generate.profile) answer.summarise();
    return {};
  }

  /// Token ids of the messages; the oldest exchanges are left out where the context is too short.
  Result<std::vector<std::uint32_t>> fit(std::vector<ChatMessage>& messages) const {
    const std::uint32_t wanted = std::min(options_.generate.max_tokens, model_.context_max() / 2);
    std::size_t forgotten = 0;
    for (;;) {
      IMEX_TRY(auto ids, chat_ids(model_, messages));
      if (ids.size() + wanted <= model_.context_max()) {
        if (forgotten != 0) {
          fmt::print(stderr,
                     "imex: the oldest {} messages are forgotten: the context has {} tokens\n",
                     forgotten, model_.context_max());
        }
        return ids;
      }
      const std::size_t oldest = options_.system.empty() ? 0 : 1;
      if (messages.size() < oldest + 3) {
        return fail(Errc::kInvalidArgument,
                    fmt::format("a message of {} tokens does not fit the context of {}, of which "
                                "{} are for the answer",
                                ids.size(), model_.context_max(), wanted),
                    "shorten it");
      }
      const auto begin = messages.begin() + static_cast<std::ptrdiff_t>(oldest);
      messages.erase(begin, begin + 2);
      forgotten += 2;
    }
  }

  const Global& global_;
  const ChatOptions& options_;
  RunningModel& model_;
  bool terminal_;
  std::uint64_t seed_;
  std::vector<ChatMessage> messages_;
};

}  // namespace

Result<void> chat(const Global& global, const ChatOptions& options) {
  IMEX_TRY(const auto model, RunningModel::open(global, options.generate.run));
  IMEX_CHECK_OK(
      inference::validate(options.generate.sampling, model->file().parameters().vocabulary));
  // A model without a template is refused before anything is loaded.
  IMEX_CHECK_OK(chat_ids(*model, {{"user", "Hello"}}));
  catch_interrupts();
  bool started = false;
  // Once the model is ready, Ctrl-C ends an answer, not the ranks.
  IMEX_CHECK_OK(model->start(model->context_max(), [&] { return !started && interrupted(); }));
  started = true;
  return Chat(global, options, *model).go();
}

}  // namespace imex::cli
