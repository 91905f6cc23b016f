/// One answer of a model: streamed as it comes, then told of with its figures.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "inference/tokenizer/tokenizer.hpp"
#include "running_model.hpp"
#include "stop_text.hpp"

namespace imex::cli {

class Answer {
 public:
  /// Borrows all. `begun`: where the time to the first token counts from.
  Answer(const Global& global, const GenerateOptions& options, RunningModel& model,
         std::chrono::steady_clock::time_point begun);

  /// Called before each token is taken; true: this answer is long enough.
  void stop_when(std::function<bool()> stop) { stop_when_ = std::move(stop); }
  /// Asks the model, and gives the text to standard output unless that is JSON. `reuses_cache` as
  /// in GenerateRequest. Errors: those of Generator::generate(); the text so far has been given
  /// out.
  [[nodiscard]] Result<void> run(const std::vector<std::uint32_t>& prompt, std::uint64_t seed,
                                 bool reuses_cache);

  // After run().
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Three lines: what ran, how fast, what the exchanges took; and the profile if asked for.
  void summarise() const;
  /// The object of `--format json`.
  [[nodiscard]] Json json() const;

 private:
  bool take(std::uint32_t id);
  void emit(const std::string& text);

  const Global& global_;
  const GenerateOptions& options_;
  RunningModel& model_;
  std::chrono::steady_clock::time_point begun_;
  std::function<bool()> stop_when_;
  inference::Detokenizer stream_;
  StopText stop_;
  std::vector<std::uint32_t> prompt_, ids_;
  std::uint64_t seed_ = 0;
  std::string text_;
  std::chrono::nanoseconds first_token_{0};
  inference::GenerateResult result_;
  std::vector<inference::RankReport> reports_;
};

/// Of a run with a JSON format. Errors: those of print().
[[nodiscard]] Result<void> print_answer(const Global& global, const Answer& answer);

}  // namespace imex::cli
