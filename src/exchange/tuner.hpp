/// Which algorithm an all_reduce takes: the one that the measured costs of this machine say is
/// fastest. Pure; every rank must be given the same costs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <imex/communicator.hpp>

namespace imex::exchange {

/// Measured, in nanoseconds. The defaults fit what `imex bench all-reduce` measured on two cores of
/// a Xeon (Cascade Lake) guest.
struct Costs {
  double hop = 110;             ///< from a store until the peer has seen it
  double line = 9.5;            ///< per cache line that changes its owner, a few at a time
  double stream = 4;            ///< the same in long runs
  double copy = 0.017;          ///< per byte copied or reduced within the own caches
  double kernel_call = 900;     ///< one read of a peer's private memory
  double kernel_page = 450;     ///< per page of 4 KiB that it reads
  bool kernel_allowed = false;  ///< all ranks may read each other's private memory
};

/// Costs from the times of two packet exchanges, of 8 bytes and of kPacketBytesMax: a hand-off and
/// a line. Lines of long runs keep their proportion. Times that make no sense (a preempted rank)
/// are bounded.
[[nodiscard]] Costs costs_from(double small_ns, double large_ns, std::uint32_t ranks,
                               const Costs& base) noexcept;

/// Groups of ranks that are near each other.
struct GroupShape {
  std::uint32_t groups = 0;   ///< less than two: two levels are not possible
  std::uint32_t largest = 0;  ///< ranks
};

struct TuningQuestion {
  std::size_t bytes = 0;
  std::uint32_t ranks = 2;
  bool registered = false;  ///< both buffers come from allocate()
  GroupShape shape{};
};

/// Nanoseconds, or infinity where the algorithm cannot serve.
[[nodiscard]] double predict(Algorithm algorithm, const TuningQuestion& question,
                             const Costs& costs) noexcept;

/// Never kAuto. With one rank the answer has no meaning.
[[nodiscard]] Algorithm choose(const TuningQuestion& question, const Costs& costs) noexcept;

/// choose() by powers of two, looked up in a few instructions.
class TuningTable {
 public:
  TuningTable() = default;
  TuningTable(std::uint32_t ranks, const Costs& costs, const GroupShape& shape = {}) noexcept;

  static constexpr std::size_t kSteps = 40;  ///< of two per power of two, from 64 B on
  [[nodiscard]] static std::size_t step_of(std::size_t bytes) noexcept;
  /// The largest size of a step but the last, which has none.
  [[nodiscard]] static std::size_t step_bytes(std::size_t step) noexcept;

  [[nodiscard]] Algorithm choice(std::size_t bytes, bool registered) const noexcept;
  /// `tried`: what trials have decided, by step; kAuto: nothing yet.
  [[nodiscard]] std::string explain(bool registered,
                                    const std::array<Algorithm, kSteps>& tried) const;
  [[nodiscard]] const Costs& costs() const noexcept { return costs_; }

 private:
  std::uint32_t ranks_ = 1;
  GroupShape shape_{};
  Costs costs_{};
  std::array<std::array<Algorithm, kSteps>, 2> table_{};
};

}  // namespace imex::exchange
