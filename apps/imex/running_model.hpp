/// From what a user named to a model that answers: found, opened, cut, packed, split over ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "inference/chat/chat_template.hpp"
#include "inference/generation/generator.hpp"
#include "inference/model/model_file.hpp"
#include "inference/settings/run_settings.hpp"
#include "inference/split/split_plan.hpp"
#include "inference/weights/packed_image.hpp"
#include "log/log.hpp"

namespace imex::cli {

/// Set by Ctrl-C from now on, instead of ending the process.
void catch_interrupts();
[[nodiscard]] bool interrupted() noexcept;
/// What was interrupted has ended; the next Ctrl-C counts anew.
void forget_interrupt() noexcept;

/// Neither copied nor moved: the ranks look at it.
class RunningModel {
 public:
  /// Opens the model and plans its cut: headers only, so what cannot work is refused at once.
  /// Errors: those of ModelFile::open() and plan_split().
  [[nodiscard]] static Result<std::unique_ptr<RunningModel>> open(const Global& global,
                                                                  const ModelRunOptions& options);

  /// Packs, forks and loads for sequences of at most `context` tokens. Errors: kResourceExhausted
  /// with the bytes that each rank needs, those of PackedImage::open() and Generator::start().
  /// `interrupted` as in GeneratorOptions.
  [[nodiscard]] Result<void> start(std::uint32_t context,
                                   std::function<bool()> interrupted = cli::interrupted);

  [[nodiscard]] const inference::ModelFile& file() const noexcept { return file_; }
  [[nodiscard]] const inference::Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  [[nodiscard]] inference::Generator& generator() noexcept { return *generator_; }
  [[nodiscard]] const inference::SplitPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Tokens that a sequence may have: the model's, or fewer by option.
  [[nodiscard]] std::uint32_t context_max() const noexcept { return context_max_; }
  /// From the start of the command until all ranks were ready.
  [[nodiscard]] double load_seconds() const noexcept { return load_seconds_; }
  [[nodiscard]] std::vector<std::uint64_t> memory_per_rank() const;
  [[nodiscard]] const inference::EngineLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] const inference::PackedImage& image() const noexcept { return image_; }
  [[nodiscard]] double packing_seconds() const noexcept { return packing_seconds_; }
  [[nodiscard]] const ModelRunOptions& options() const noexcept { return options_; }
  [[nodiscard]] log::Logger& log() const noexcept { return *log_; }
  [[nodiscard]] std::chrono::steady_clock::time_point begun() const noexcept { return begun_; }

 private:
  RunningModel(const Global& global, const ModelRunOptions& options)
      : global_(global), options_(options) {}
  [[nodiscard]] Result<void> check_memory() const;
  [[nodiscard]] Result<void> pack();

  [[nodiscard]] Result<inference::RunSettings> read_settings() const;

  const Global& global_;
  const ModelRunOptions& options_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::unique_ptr<log::Logger> log_;
  std::string path_, name_;
  inference::ModelFile file_;
  std::optional<inference::Tokenizer> tokenizer_;
  inference::SplitPlan plan_;
  std::uint32_t context_max_ = 0;
  inference::EngineLimits limits_;
  inference::PackedImage image_;
  std::optional<inference::Generator> generator_;
  double packing_seconds_ = 0, load_seconds_ = 0;
};

/// What a start looks like to the scripts of TensorRT-LLM's users (inference.md 3), and the
/// evidence for it.
void log_start(const RunningModel& model, const std::vector<inference::RankReport>& reports);

/// A conversation, not empty, as the model was trained to see it. Errors: kInvalidArgument (text),
/// kFailedPrecondition (no template), those of the template.
[[nodiscard]] Result<std::vector<std::uint32_t>> chat_ids(
    const RunningModel& model, const std::vector<inference::ChatMessage>& messages);

}  // namespace imex::cli
