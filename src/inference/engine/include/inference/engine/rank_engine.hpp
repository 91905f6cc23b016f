/// One rank of a model: runs steps together with its peers.
///
/// Rank 0 leads: it says what each step is, in memory that the others read; they follow. The token
/// that a step draws is known on every rank, because all draw it from the same logits with the same
/// random numbers.
///
/// In steady state a step takes no memory, makes no thread and no system call, as long as no rank
/// has to wait for another for so long that it gives its core away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <imex/communicator.hpp>

#include "inference/engine/time_histogram.hpp"
#include "inference/model/model_file.hpp"
#include "inference/sampling/sampler.hpp"
#include "inference/split/split_plan.hpp"
#include "inference/weights/packed_image.hpp"

namespace imex::inference {

struct EngineLimits {
  std::uint32_t rows = 256;     ///< tokens of one step
  std::uint32_t context = 0;    ///< positions of one sequence
  std::uint32_t sequences = 1;  ///< at once; numbers below it name them
  std::uint32_t kv_blocks = 0;  ///< of 16 positions; 0: enough for all sequences

  /// Of one sequence that nobody waits for but its reader: long prompts in steps of 256 tokens.
  [[nodiscard]] static constexpr EngineLimits for_context(std::uint32_t context) noexcept {
    return {context < 256 ? context : 256, context, 1, 0};
  }
};

/// Bytes that one rank needs.
struct RankMemory {
  std::uint64_t weights = 0;  ///< that it reads; they are shared with the other ranks
  std::uint64_t cache = 0, buffers = 0, window = 0;

  [[nodiscard]] std::uint64_t own() const noexcept { return cache + buffers + window; }
};
[[nodiscard]] RankMemory memory_of(const HyperParameters& parameters, const SplitPlan& plan,
                                   std::uint32_t rank, const EngineLimits& limits);

/// Where the time of a rank went since reset_times(). Trivially copyable.
struct RankTimes {
  std::uint64_t steps = 0, rows = 0;
  // Nanoseconds in all.
  std::uint64_t attention = 0, feed_forward = 0, head = 0, exchange = 0, draw = 0;
  std::uint64_t read = 0;    ///< to read all of the own weights once; 0: not measured
  TimeHistogram exchanges;   ///< of one: from the arrival of the last rank to the end
  TimeHistogram imbalances;  ///< from this rank's arrival to that of the last one
};

/// Not thread-safe.
class RankEngine {
 public:
  struct Parts {
    const ModelFile& model;
    const PackedImage& image;
    const SplitPlan& plan;
  };
  /// Collective. Borrows all it is given; `communicator` may be null if the plan has one rank.
  /// Errors: kResourceExhausted, those of Communicator::allocate().
  [[nodiscard]] static Result<RankEngine> create(const Parts& parts, Communicator* communicator,
                                                 const EngineLimits& limits);
  RankEngine(RankEngine&&) noexcept;
  RankEngine& operator=(RankEngine&&) noexcept;
  ~RankEngine();

  // Rank 0. Errors of all: those of the communicator, after which the engine is of no more use;
  // kDataLoss when a number that is none appears, with the layer and rank where.

  /// A sequence begins anew: of what it was only the first `kept` tokens stay, with their keys and
  /// values. `seed` of the options must be set.
  [[nodiscard]] Result<void> begin(std::uint32_t sequence, const SamplingOptions& options,
                                   std::uint32_t kept = 0);
  /// What a sequence has now: all tokens that were appended. Valid until the next call.
  [[nodiscard]] std::span<const std::uint32_t> tokens(std::uint32_t sequence) const noexcept;
  /// Appends tokens to a sequence; cuts them into steps. `draws`: and draws the one that follows
  /// the last. Errors: kResourceExhausted (context, or no free blocks): nothing was done.
  [[nodiscard]] Result<std::optional<Sample>> append(std::uint32_t sequence,
                                                     std::span<const std::uint32_t> tokens,
                                                     bool draws);
  /// Appends tokens and returns the log-probability of each but the first, given those before it.
  [[nodiscard]] Result<std::vector<double>> score(std::uint32_t sequence,
                                                  std::span<const std::uint32_t> tokens);
  /// All ranks read their weights at the same time and do nothing else: no step can be faster.
  [[nodiscard]] Result<void> measure_reading();
  /// The others call the function that they gave to follow(). Often enough (every few seconds) this
  /// also keeps them from taking an idle rank 0 for a lost one.
  [[nodiscard]] Result<void> report();
  /// Ends follow() of the others.
  [[nodiscard]] Result<void> stop();

  /// All other ranks: takes part in all steps until rank 0 stops.
  [[nodiscard]] Result<void> follow(const std::function<void()>& on_report);

  /// All ranks call it at once: the median time of a meeting of all, in nanoseconds.
  [[nodiscard]] Result<std::uint64_t> measure_meeting();

  [[nodiscard]] RankTimes times() const;
  void reset_times() noexcept;

 private:
  class State;
  explicit RankEngine(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace imex::inference
