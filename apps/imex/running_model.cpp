#include "running_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.hpp"
#include "inference/catalogue/catalogue.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::cli {
namespace {

using inference::memory_of;

std::atomic<bool> interrupt_seen{false};

extern "C" void note_interrupt(int) {
  // Whoever asks twice does not want to wait for an orderly end.
  if (interrupt_seen.exchange(true)) std::_Exit(130);
}

/// Beside the models that were fetched; empty where this user has no place for them.
std::string image_directory() {
  const auto cache = inference::ModelCache::from_environment();
  return cache ? cache->folder + "/packed" : std::string();
}

/// What the kernel could hand out; nothing where it does not say.
std::optional<std::uint64_t> available_memory() {
  const auto text = os::read_file("/proc/meminfo", 1U << 16U);
  if (!text) return std::nullopt;
  const std::size_t at = text->find("MemAvailable:");
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text->c_str() + at + 13, nullptr, 10) * 1024;
}

log::Level level_of(inference::RunLogLevel level) {
  using inference::RunLogLevel;
  switch (level) {
    case RunLogLevel::kTrace:
      return log::Level::kTrace;
    case RunLogLevel::kDebug:
      return log::Level::kDebug;
    case RunLogLevel::kInfo:
      return log::Level::kInfo;
    case RunLogLevel::kWarning:
      return log::Level::kWarn;
    case RunLogLevel::kError:
      return log::Level::kError;
    case RunLogLevel::kCritical:
      return log::Level::kCritical;
  }
  return log::Level::kWarn;
}

/// To standard error. A person who asks for a text wants to see no more than that unless told so.
std::unique_ptr<log::Logger> make_logger(const inference::RunSettings& settings, bool quiet) {
  log::Options options;
  options.format = settings.json_logs.value ? log::Format::kJson : log::Format::kText;
  options.headline = false;
  options.ring_bytes = 0;
  options.threshold = log::Level::kWarn;
  if (settings.log_level.source != inference::SettingSource::kDefault) {
    options.threshold = level_of(settings.log_level.value);
  } else if (quiet) {
    options.threshold = log::Level::kError;
  }
  return std::make_unique<log::Logger>(std::move(options));
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept { return interrupt_seen.load(std::memory_order_relaxed); }
void forget_interrupt() noexcept { interrupt_seen.store(false, std::memory_order_relaxed); }

Result<inference::RunSettings> RunningModel::read_settings() const {
  inference::SettingInput input;
  const auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) input.options.emplace_back(name, *value);
  };
  add("--model", options_.model);
  add("--tensor-parallel", options_.tensor_parallel);
  add("--max-model-len", options_.max_model_len);
  add("--log-level", options_.log_level);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    input.environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return inference::read_run_settings(input);
}

Result<std::unique_ptr<RunningModel>> RunningModel::open(const Global& global,
                                                         const ModelRunOptions& options) {
  std::unique_ptr<RunningModel> model(new RunningModel(global, options));
  IMEX_TRY(const auto settings, model->read_settings());
  model->log_ = make_logger(settings, global.quiet);
  for (const std::string& warning : settings.warnings) model->log_->warn(warning);
  IMEX_TRY(model->path_, inference::find_model(settings.model.value));
  IMEX_TRY(model->file_, inference::ModelFile::open(model->path_));
  model->name_ = model->file_.name().empty()
                     ? std::filesystem::path(model->path_).filename().string()
                     : model->file_.name();
  IMEX_TRY(const auto facts, inference::split_facts_of(model->file_));
  IMEX_TRY(model->plan_,
           inference::plan_split(facts, settings.tensor_parallel.value, options.invariant));
  const std::uint32_t context = model->file_.parameters().context;
  const std::uint32_t wanted = settings.max_model_len.value;
  model->context_max_ = wanted == 0 ? context : std::min(wanted, context);
  auto tokenizer = model->file_.tokenizer();
  if (!tokenizer) return fail(std::move(tokenizer).error().context("tokenizer"));
  model->tokenizer_ = std::move(*tokenizer);
  return model;
}

std::vector<std::uint64_t> RunningModel::memory_per_rank() const {
  std::vector<std::uint64_t> bytes;
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    const auto memory = memory_of(file_.parameters(), plan_, rank, limits_);
    bytes.push_back(memory.weights + memory.own());
  }
  return bytes;
}

Result<void> RunningModel::check_memory() const {
  const auto available = available_memory();
  std::uint64_t own = 0;
  for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
    own += memory_of(file_.parameters(), plan_, rank, limits_).own();
  }
  // Weights lie in the page cache once, which the kernel counts as available.
  const std::uint64_t needed = own + file_.weight_bytes();
  if (!available || needed <= *available) return {};
  std::vector<std::string> per_rank;
  for (const std::uint64_t bytes : memory_per_rank()) per_rank.push_back(format_size(bytes));
  return fail(Errc::kResourceExhausted,
              fmt::format("{} of memory are needed, {} are available; per rank {}",
                          format_size(needed), format_size(*available), fmt::join(per_rank, ", ")),
              "use a smaller --context, or a model with fewer bits");
}

Result<void> RunningModel::pack() {
  std::optional<Progress> progress;
  // A log needs no more than to know what takes the time.
  const std::size_t steps = ::isatty(STDERR_FILENO) == 1 ? 50 : 1;
  std::size_t shown = 0;
  const inference::PackOptions options{
      image_directory(), os::usable_cores(), [&](std::uint64_t done, std::uint64_t all) {
        if (!progress) progress.emplace(steps, global_.quiet);
        for (; shown < steps && done * steps >= all * (shown + 1); ++shown) {
          progress->step(
              fmt::format("packing {} for the kernels, once per machine", format_size(all)));
        }
      }};
  IMEX_TRY(image_, inference::PackedImage::open(file_, path_, options));
  progress.reset();
  if (!image_.why().empty() && !global_.quiet) {
    fmt::print(stderr, "imex: the packed weights are not kept for the next time: {}\n",
               image_.why());
  }
  return {};
}

Result<void> RunningModel::start(std::uint32_t context, std::function<bool()> interrupted) {
  limits_ = inference::EngineLimits::for_context(std::min(context, context_max_));
  IMEX_CHECK_OK(check_memory());
  const auto packing = std::chrono::steady_clock::now();
  IMEX_CHECK_OK(pack());
  packing_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - packing).count();
  inference::GeneratorOptions options;
  options.model = &file_;
  options.image = &image_;
  options.plan = plan_;
  options.limits = limits_;
  options.channels = options_.channels;
  options.interrupted = std::move(interrupted);
  IMEX_TRY(auto generator, inference::Generator::start(std::move(options)));
  generator_.emplace(std::move(generator));
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  log_start(*this, generator_->reports());
  return {};
}

}  // namespace imex::cli
