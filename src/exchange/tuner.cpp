#include "tuner.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "base/units.hpp"
#include "layout.hpp"

namespace imex::exchange {

namespace {

constexpr std::array kCandidates{Algorithm::kPacket,     Algorithm::kMailbox,
                                 Algorithm::kRing,       Algorithm::kRegistered,
                                 Algorithm::kSingleCopy, Algorithm::kTwoLevel};
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Costs costs_from(double small_ns, double large_ns, std::uint32_t ranks,
                 const Costs& base) noexcept {
  Costs costs = base;
  const double peers = ranks - 1;
  const double reduce =
      static_cast<double>(kPacketBytesMax) * static_cast<double>(ranks) * base.copy;
  const double lines = 2 * peers * (kPacketLines - 1);
  costs.hop = std::clamp(small_ns - 2 * peers * base.line / kPacketLines, 20.0, 5'000.0);
  costs.line = std::clamp((large_ns - small_ns - reduce) / lines, 1.0, 100.0);
  costs.stream = base.stream * costs.line / base.line;
  return costs;
}

double predict(Algorithm algorithm, const TuningQuestion& question, const Costs& costs) noexcept {
  const auto bytes = static_cast<double>(question.bytes);
  const auto ranks = static_cast<double>(question.ranks);
  const double peers = ranks - 1;
  const double lines = bytes / static_cast<double>(sizeof(PacketLine));
  const double packet_lines = bytes / static_cast<double>(kLinePayload);
  const double reduce = bytes * ranks * costs.copy;
  switch (algorithm) {
    case Algorithm::kPacket:
      // Every line is fetched for writing, and read by the peer.
      if (question.bytes > kPacketBytesMax) return kNever;
      return costs.hop + 2 * peers * packet_lines * costs.line + reduce;
    case Algorithm::kMailbox:
      // A line is asked in and answered in: two moves, for each peer's share; twice, as asker and
      // as owner, of which half overlaps.
      return 4 * costs.hop + 2 * peers * packet_lines / ranks * costs.line + bytes * costs.copy * 3;
    case Algorithm::kRing:
      return 3 * costs.hop + 2 * peers * lines * costs.stream + reduce + bytes * peers * costs.copy;
    case Algorithm::kRegistered:
      if (!question.registered) return kNever;
      return 3.5 * costs.hop + 2 * peers * lines / ranks * costs.stream + reduce / ranks;
    case Algorithm::kSingleCopy: {
      if (!costs.kernel_allowed) return kNever;
      const double pages = bytes / 4096;
      return 3 * costs.hop + 2 * peers * costs.kernel_call +
             2 * peers / ranks * (lines * costs.stream + pages * costs.kernel_page) +
             reduce / ranks;
    }
    case Algorithm::kTwoLevel: {
      if (question.shape.groups < 2) return kNever;
      // To the leader and back, then what the leaders do best. One distance for all lines: what is
      // near is taken for as dear as what is far.
      const auto near = static_cast<double>(question.shape.largest - 1);
      const TuningQuestion among{.bytes = question.bytes, .ranks = question.shape.groups};
      return 3 * costs.hop + 2 * near * lines * costs.stream + bytes * (2 * near + 1) * costs.copy +
             predict(choose(among, costs), among, costs);
    }
    case Algorithm::kAuto:
      break;
  }
  return kNever;
}

Algorithm choose(const TuningQuestion& question, const Costs& costs) noexcept {
  return *std::min_element(kCandidates.begin(), kCandidates.end(), [&](Algorithm a, Algorithm b) {
    return predict(a, question, costs) < predict(b, question, costs);
  });
}

std::size_t TuningTable::step_of(std::size_t bytes) noexcept {
  if (bytes <= 64) return 0;
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1));  // 7 for 65 to 128
  const bool upper = bytes > (std::size_t{3} << (power - 2));              // above 1.5 times half
  return std::min(2 * (power - 6) - (upper ? 0U : 1U), kSteps - 1);
}

std::size_t TuningTable::step_bytes(std::size_t step) noexcept {
  const std::size_t power = std::size_t{64} << (step + 1) / 2;
  return step % 2 == 0 ? power : power / 4 * 3;
}

TuningTable::TuningTable(std::uint32_t ranks, const Costs& costs, const GroupShape& shape) noexcept
    : ranks_(ranks), shape_(shape), costs_(costs) {
  for (const bool registered : {false, true}) {
    for (std::size_t step = 0; step != kSteps; ++step) {
      // The largest size, so that what is chosen can serve all of the step.
      table_[registered ? 1 : 0][step] =
          choose({step_bytes(step), ranks, registered, shape}, costs);
    }
  }
}

Algorithm TuningTable::choice(std::size_t bytes, bool registered) const noexcept {
  return table_[registered ? 1 : 0][step_of(bytes)];
}

std::string TuningTable::explain(bool registered,
                                 const std::array<Algorithm, kSteps>& tried) const {
  std::string text = fmt::format(
      "costs in ns: hop {:.0f}, line {:.1f}, streamed line {:.1f}; kernel copies {}\n", costs_.hop,
      costs_.line, costs_.stream, costs_.kernel_allowed ? "permitted" : "not permitted here");
  text += fmt::format("{:>10}  {:<12} {:<10} {}\n", "bytes", "algorithm", "by", "predicted us");
  for (std::size_t bytes = 64; bytes <= std::size_t{64} << 20U; bytes *= 4) {
    const Algorithm found = tried[step_of(bytes)];
    const bool open = found == Algorithm::kAuto;
    text += fmt::format("{:>10}  {:<12} {:<10}", format_size(bytes),
                        algorithm_name(open ? choice(bytes, registered) : found),
                        open ? "model" : "trial");
    for (const Algorithm candidate : kCandidates) {
      const double ns = predict(candidate, {bytes, ranks_, registered, shape_}, costs_);
      if (ns != kNever) text += fmt::format(" {} {:.2f}", algorithm_name(candidate), ns / 1000);
    }
    text += '\n';
  }
  return text;
}

}  // namespace imex::exchange
