#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>

#include <fmt/format.h>

#include "answer.hpp"
#include "base/units.hpp"
#include "inference/chat/chat_template.hpp"
#include "os/file.hpp"
#include "running_model.hpp"

namespace imex::cli {
namespace {

constexpr std::size_t kPromptBytesMax = std::size_t{64} << 20U;

Result<std::string> prompt_of(const GenerateOptions& options) {
  if (options.prompt_file.empty()) return options.prompt;
  if (options.prompt_file != "-") return os::read_file(options.prompt_file, kPromptBytesMax);
  std::string text;
  std::array<char, 4096> piece;
  while (const std::size_t read = std::fread(piece.data(), 1, piece.size(), stdin)) {
    text.append(piece.data(), read);
    if (text.size() > kPromptBytesMax) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("standard input is longer than {}", format_size(kPromptBytesMax)));
    }
  }
  return text;
}

std::string text_of(const inference::Tokenizer& tokenizer, std::optional<std::uint32_t> id) {
  return id ? std::string(tokenizer.bytes_of(*id)) : std::string();
}

}  // namespace

Result<std::vector<std::uint32_t>> chat_ids(const RunningModel& model,
                                            const std::vector<inference::ChatMessage>& messages) {
  const auto& text = model.file().chat_template();
  if (!text) {
    return fail(Errc::kFailedPrecondition, fmt::format("'{}' has no chat template", model.name()),
                "leave out --chat, or use a model that was trained for conversations");
  }
  // Alone first: an error then counts bytes of what the user wrote, not of the template around it.
  IMEX_CHECK_OK(model.tokenizer().encode(messages.back().content));
  IMEX_TRY(const auto chat, inference::ChatTemplate::parse(*text));
  const auto& parameters = model.file().parameters();
  inference::ChatInput input;
  input.messages = messages;
  input.begin_token = text_of(model.tokenizer(), parameters.begin_token);
  if (!parameters.stop_tokens.empty()) {
    input.end_token = text_of(model.tokenizer(), parameters.stop_tokens.front());
  }
  IMEX_TRY(const std::string prompt, chat.render(input));
  return model.tokenizer().encode(prompt, {.add_special = false, .parse_special = true});
}

Result<void> generate(const Global& global, const GenerateOptions& options) {
  IMEX_TRY(const std::string text, prompt_of(options));
  IMEX_TRY(const auto model, RunningModel::open(global, options.run));
  IMEX_CHECK_OK(inference::validate(options.sampling, model->file().parameters().vocabulary));
  IMEX_TRY(const auto prompt,
           options.chat ? chat_ids(*model, {{"user", text}}) : model->tokenizer().encode(text));
  if (prompt.empty()) {
    return fail(Errc::kInvalidArgument, "the prompt is empty, and this model needs one",
                "imex generate -- \"Once upon a time\"");
  }
  if (prompt.size() >= model->context_max()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("a prompt of {} tokens does not fit the context of {}", prompt.size(),
                            model->context_max()),
                "shorten the prompt");
  }
  GenerateOptions bounded = options;
  bounded.max_tokens = std::min(options.max_tokens,
                                model->context_max() - static_cast<std::uint32_t>(prompt.size()));
  for (const std::string& stop : options.stop) {
    // The tokenizer reads it as the model would have to write it.
    if (auto read = model->tokenizer().encode(stop); !read) {
      return fail(std::move(read).error().context("--stop"));
    }
  }
  catch_interrupts();
  IMEX_CHECK_OK(model->start(static_cast<std::uint32_t>(prompt.size()) + bounded.max_tokens));
  const std::uint64_t seed = options.seed ? *options.seed : std::random_device{}();
  Answer answer(global, bounded, *model, model->begun());
  IMEX_CHECK_OK(answer.run(prompt, seed, false));
  if (global.format != Format::kTable) return print_answer(global, answer);
  if (!global.quiet) answer.summarise();
  return {};
}

Result<void> perplexity(const Global& global, const PerplexityOptions& options) {
  IMEX_TRY(const std::string text, os::read_file(options.file, kPromptBytesMax));
  IMEX_TRY(const auto model, RunningModel::open(global, options.run));
  IMEX_TRY(auto ids, model->tokenizer().encode(text));
  if (ids.size() < 2) {
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}' has {} tokens, at least 2 are needed", options.file, ids.size()));
  }
  catch_interrupts();
  const std::size_t window = std::min<std::size_t>(ids.size(), model->context_max());
  IMEX_CHECK_OK(model->start(static_cast<std::uint32_t>(window)));
  const auto begin = std::chrono::steady_clock::now();
  double sum = 0;
  std::uint64_t count = 0;
  // A text longer than the context is cut into pieces that know nothing of each other.
  for (std::size_t at = 0; at + 1 < ids.size(); at += window) {
    const auto piece = std::span(ids).subspan(at, std::min(window, ids.size() - at));
    if (piece.size() < 2) break;
    IMEX_TRY(const auto scores, model->generator().score(piece));
    for (const double score : scores) sum -= score;
    count += scores.size();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double nll = sum / static_cast<double>(count);
  if (global.format != Format::kTable) {
    return print(Json{{"model", model->name()},
                      {"tensor_parallel", model->plan().ranks()},
                      {"nll", nll},
                      {"perplexity", std::exp(nll)},
                      {"tokens", count},
                      {"tokens_per_second", static_cast<double>(count) / seconds}}
                     .dump(global.format == Format::kJson ? 2 : -1));
  }
  Table table({"NLL", "PERPLEXITY", "TOKENS", "TOKENS_PER_S"});
  table.add({fmt::format("{:.4f}", nll), fmt::format("{:.3f}", std::exp(nll)),
             fmt::format("{}", count),
             fmt::format("{:.1f}", static_cast<double>(count) / seconds)});
  return print(table.render());
}

}  // namespace imex::cli
