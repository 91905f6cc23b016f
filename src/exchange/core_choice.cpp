// Which way an all_reduce goes: as asked for, or by trial.

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "algorithm/two_level.hpp"
#include "base/result.hpp"
#include "core.hpp"

namespace imex::exchange {

bool Core::can(Algorithm algorithm, std::size_t bytes, Kind kind) const noexcept {
  switch (algorithm) {
    case Algorithm::kPacket:
      return bytes <= kPacketBytesMax;
    case Algorithm::kRegistered:
      return kind.registered;
    case Algorithm::kTwoLevel:
      return kind.two_levels;
    case Algorithm::kSingleCopy:
      return tuning_.costs().kernel_allowed;
    default:
      return algorithm != Algorithm::kAuto;
  }
}

Algorithm Core::choice(std::size_t bytes, bool registered) const noexcept {
  const Kind kind = kind_of(registered, ReduceOp::kSum);
  if (can(options_.algorithm, bytes, kind)) return options_.algorithm;
  const auto& trials = lanes_[0]->trials[kind.index()];
  const Algorithm tried = trials[TuningTable::step_of(bytes)].choice();
  return tried != Algorithm::kAuto ? tried : tuning_.choice(bytes, registered);
}

std::string Core::explain(bool registered) const {
  std::array<Algorithm, TuningTable::kSteps> tried{};
  for (std::size_t step = 0; step != tried.size(); ++step) {
    tried[step] = lanes_[0]->trials[kind_of(registered, ReduceOp::kSum).index()][step].choice();
  }
  return tuning_.explain(registered, tried);
}

bool Core::run_all_reduce(Lane& lane, Algorithm algorithm, const ReduceCall& call, const Place& in,
                          const Place& out) {
  switch (algorithm) {
    case Algorithm::kPacket:
      return all_reduce_packet(lane, call);
    case Algorithm::kMailbox:
      return all_reduce_mailbox(lane, call);
    case Algorithm::kRegistered:
      return all_reduce_registered(lane, call, in, out);
    case Algorithm::kSingleCopy:
      return all_reduce_single_copy(lane, call);
    case Algorithm::kTwoLevel:
      lane.ended_in = all_reduce_two_level({.group = lane.group,
                                            .leaders = lane.leaders,
                                            .among_leaders = two_levels_->among_leaders,
                                            .chunk_bytes_max = two_levels_->chunk_bytes_max},
                                           call);
      return lane.ended_in == nullptr;
    case Algorithm::kRing:
    case Algorithm::kAuto:
      break;
  }
  return all_reduce_ring(lane, call);
}

Result<void> Core::try_all_reduce(Lane& lane, Trial& trial, const CallFacts& facts, Kind kind,
                                  const std::function<bool(Algorithm)>& run) {
  if (!trial.begun()) {
    const std::size_t largest = TuningTable::step_bytes(TuningTable::step_of(facts.bytes));
    trial.begin({.bytes = std::max(largest, facts.bytes),
                 .ranks = who_.ranks,
                 .registered = kind.registered,
                 .shape = kind.two_levels ? two_levels_->shape : GroupShape{}},
                tuning_.costs());
  }
  const Algorithm algorithm = trial.decided() ? trial.choice() : trial.next();
  const auto begin = std::chrono::steady_clock::now();
  IMEX_CHECK_OK(finish(lane, facts, algorithm, run(algorithm)));
  if (trial.decided()) return {};
  const std::chrono::duration<float, std::nano> took = std::chrono::steady_clock::now() - begin;
  if (!trial.took(took.count())) return {};

  std::vector<Trial::Times> all(who_.ranks, trial.times());
  std::vector<std::span<const std::byte>> sends(who_.ranks,
                                                std::as_bytes(std::span(trial.times())));
  std::vector<std::span<std::byte>> receives;
  for (Trial::Times& times : all) receives.push_back(std::as_writable_bytes(std::span(times)));
  if (!swap_small_parts(lane, {.sends = sends, .receives = receives}, sizeof(Trial::Times)))
    return fail(wait_error(lane, facts));
  trial.decide(all);
  return {};
}

}  // namespace imex::exchange
