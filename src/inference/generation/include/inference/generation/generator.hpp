/// A model split over processes of this machine, ready to answer.
///
///     IMEX_TRY(auto generator, Generator::start({.model = model, .path = path, .ranks = 2}));
///     IMEX_TRY(const auto done, generator.generate({.prompt = ids}, [&](const Token& token) {
///       ...                                               // as they come
///       return true;                                      // false: enough
///     }));
///
/// Each rank is a process, forked from this one, that ends with it. They meet directly, or through
/// the node daemons whose channels are given, and exchange through a Communicator.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/engine/rank_engine.hpp"
#include "inference/model/model_file.hpp"
#include "inference/split/split_plan.hpp"
#include "inference/weights/packed_image.hpp"

namespace imex::inference {

struct GeneratorOptions {
  const ModelFile* model = nullptr;    ///< borrowed
  const PackedImage* image = nullptr;  ///< borrowed
  SplitPlan plan;
  EngineLimits limits;
  /// Of the node daemons; rank r takes number r modulo their count. None: ranks meet directly.
  std::vector<std::string> channels;
  std::chrono::milliseconds timeout{30'000};  ///< until all ranks are ready
  /// How often rank 0 tells the others that it lives while there is nothing to do; six times as
  /// long a silence of a rank ends the others.
  std::chrono::milliseconds idle{5'000};
  /// Asked every millisecond while something lasts: true ends it with kAborted.
  std::function<bool()> interrupted;
};

struct GeneratedToken {
  std::uint32_t id = 0;
  float logprob = 0;  ///< if the sampling options ask for log-probabilities
};

struct GenerateRequest {
  std::span<const std::uint32_t> prompt;  ///< not empty
  std::uint32_t max_tokens = 128;
  std::span<const std::uint32_t> stop_ids;  ///< end the text; at most 32
  SamplingOptions sampling;                 ///< with a seed
  /// Then also measure how fast the ranks can read their weights: RankTimes::read.
  bool measures_reading = false;
  /// Begin with the longest beginning of the prompt that the last request left in the cache.
  bool reuses_cache = false;
};

enum class FinishReason : std::uint32_t { kStop, kLength, kAbort };
[[nodiscard]] std::string_view finish_reason_name(FinishReason reason) noexcept;

struct GenerateResult {
  FinishReason reason = FinishReason::kLength;
  std::uint64_t prompt_tokens = 0, tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< of the prompt: were in the cache, so cost no time
  double prefill_seconds = 0;       ///< until the first token was drawn
  double decode_seconds = 0;        ///< for all further ones
};

/// What one rank did since the last reset.
struct RankReport {
  RankTimes times;
  double loading_seconds = 0;       ///< from its fork until it was ready
  std::uint64_t meeting_ns = 0;     ///< median time of a meeting of all ranks, when it started
  std::uint64_t private_bytes = 0;  ///< memory of its own, as the kernel counts it
};

class Generator {
 public:
  /// Forks, so call it before this process makes threads. Returns when all ranks are ready. Errors:
  /// those of the ranks, kDeadlineExceeded, kAborted.
  [[nodiscard]] static Result<Generator> start(GeneratorOptions options);
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  ~Generator();  ///< ends the ranks, within a second

  /// `on_token` is called as tokens come; false ends the text there. When a rank dies or fails the
  /// call returns within a second with an error that names it (kPeerLost); the tokens so far have
  /// been given out. After such an error the generator is of no more use.
  using OnToken = std::function<bool(const GeneratedToken&)>;
  [[nodiscard]] Result<GenerateResult> generate(const GenerateRequest& request,
                                                const OnToken& on_token);

  /// Log-probabilities (natural) of all tokens but the first, each given those before it.
  [[nodiscard]] Result<std::vector<double>> score(std::span<const std::uint32_t> tokens);

  /// Of all ranks, about the last request.
  [[nodiscard]] std::vector<RankReport> reports() const;

  [[nodiscard]] std::vector<std::int32_t> pids() const;

 private:
  class State;
  explicit Generator(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace imex::inference
