#include <imex/signal.hpp>

#include "memory/atomics.hpp"
#include "memory/signal_protocol.hpp"

namespace imex {

namespace {

using memory::HostAtomics;

memory::SignalWords<HostAtomics> words(SignalCell& cell) noexcept {
  return {cell.value, cell.waiters};
}

}  // namespace

void Signal::notify(std::uint32_t count) noexcept {
  HostAtomics atomics;
  memory::signal_notify(atomics, words(*cell_), count);
}

void Signal::abandon() noexcept {
  HostAtomics atomics;
  memory::signal_abandon(atomics, words(*cell_));
}

std::uint64_t Signal::count() const noexcept {
  // Acquire: pairs with the release of notify(), as the poll of wait_until() does.
  return cell_->value.load(std::memory_order_acquire) >> memory::kSignalCountShift;
}

WaitResult Signal::wait_until(std::uint64_t target, const WaitOptions& options) noexcept {
  HostAtomics atomics;
  const memory::WaitLimits<HostAtomics> limits{
      .deadline = options.deadline,
      .abort = options.abort == nullptr ? nullptr : &options.abort->word,
      .policy = options.policy};
  return memory::signal_wait(atomics, words(*cell_), target, limits);
}

}  // namespace imex
