/// What all ranks do next: written by rank 0, read by the others. Words in memory of one machine,
/// between processes of one build.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace imex::inference {

/// One row of a step.
struct StepToken {
  enum class Wants : std::uint32_t {
    kNothing,  ///< its keys and values only
    kDraw,     ///< the token that follows
    kScore,    ///< the log-probability of `target` as the token that follows
  };
  std::uint32_t token = 0;
  std::uint32_t position = 0;
  std::uint32_t sequence = 0;
  Wants wants = Wants::kNothing;
  std::uint32_t target = 0;

  friend bool operator==(const StepToken&, const StepToken&) = default;
};

/// Block number `index` of a sequence's table becomes `block`.
struct TableEntry {
  std::uint32_t sequence = 0, index = 0, block = 0;

  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

struct StepPlan {
  enum class Kind : std::uint32_t {
    kStep,    ///< the tables first, then the tokens
    kBegin,   ///< `sequence` begins anew, with its first `kept` tokens, drawing by `options`
    kRead,    ///< only read your weights, to know how long that takes
    kReport,  ///< tell your user how far things are
    kStop,    ///< no more steps
  };
  Kind kind = Kind::kStep;
  std::uint32_t sequence = 0;
  std::uint32_t kept = 0;
  std::vector<TableEntry> tables;
  std::vector<StepToken> tokens;  ///< of one sequence: neighbours, positions ascending
  std::vector<std::uint32_t> options;

  void clear() noexcept;
  /// Replaces `words`; takes memory only when they grow.
  void write(std::vector<std::uint32_t>& words) const;
  /// Errors: kInternal (no plan).
  [[nodiscard]] Result<void> read(std::span<const std::uint32_t> words);
};

}  // namespace imex::inference
