// The policy that threads of a modelled execution run with: hands out steps instead of doing them.
#include "base/assert.hpp"
#include "model/checker.hpp"

namespace imex::memory::model {

std::uint64_t ModelAtomics::take(const Step& step) {
  if (at_ < log_.size()) return log_[at_++];
  throw Stopped{step};
}

std::uint64_t ModelAtomics::access(Step step) {
  for (const auto& [site, order] : mutations_.orders) {
    if (site == step.site) step.order = order;
  }
  for (const Site site : mutations_.dropped) {
    if (site == step.site) return 0;
  }
  if (mutations_.swapped && mutations_.swapped->first == step.site) {
    held_ = step;
    return 0;
  }
  const std::uint64_t result = take(step);
  if (held_ && mutations_.swapped->second == step.site) {
    const Step held = *held_;
    held_.reset();
    take(held);
  }
  return result;
}

std::uint64_t ModelAtomics::load(const Word& word, std::memory_order order, Site site) {
  return access({.kind = StepKind::kLoad, .site = site, .order = order, .word = word.index});
}
std::uint32_t ModelAtomics::load(const Word32& word, std::memory_order order, Site site) {
  return static_cast<std::uint32_t>(
      access({.kind = StepKind::kLoad, .site = site, .order = order, .word = word.index}));
}
void ModelAtomics::store(Word& word, std::uint64_t value, std::memory_order order, Site site) {
  access({.kind = StepKind::kStore,
          .site = site,
          .order = order,
          .word = word.index,
          .operand = value});
}
std::uint64_t ModelAtomics::fetch_add(Word& word, std::uint64_t value, std::memory_order order,
                                      Site site) {
  return access(
      {.kind = StepKind::kAdd, .site = site, .order = order, .word = word.index, .operand = value});
}
std::uint32_t ModelAtomics::fetch_add(Word32& word, std::uint32_t value, std::memory_order order,
                                      Site site) {
  return static_cast<std::uint32_t>(access({.kind = StepKind::kAdd,
                                            .site = site,
                                            .order = order,
                                            .word = word.index,
                                            .operand = value,
                                            .mask = 0xffff'ffffU}));
}
std::uint64_t ModelAtomics::fetch_or(Word& word, std::uint64_t value, std::memory_order order,
                                     Site site) {
  return access(
      {.kind = StepKind::kOr, .site = site, .order = order, .word = word.index, .operand = value});
}
bool ModelAtomics::compare_exchange(Word& word, std::uint64_t expected, std::uint64_t desired,
                                    std::memory_order order, Site site) {
  return access({.kind = StepKind::kCompareExchange,
                 .site = site,
                 .order = order,
                 .word = word.index,
                 .operand = desired,
                 .expected = expected}) != 0;
}
void ModelAtomics::fence(Site site) {
  access({.kind = StepKind::kFence, .site = site, .order = std::memory_order_acq_rel});
}
os::FutexResult ModelAtomics::sleep(const Word& word, std::uint64_t expected, const Word* abort,
                                    SteadyTime deadline) {
  return static_cast<os::FutexResult>(
      access({.kind = StepKind::kSleep,
              .word = word.index,
              .other_word = abort == nullptr ? kNoWord : abort->index,
              .may_time_out = deadline != kNoDeadline,
              .expected = expected & mutations_.futex_mask,
              .mask = mutations_.futex_mask}));
}
void ModelAtomics::wake_all(const Word& word) {
  access({.kind = StepKind::kWake, .word = word.index});
}
std::uint64_t ModelAtomics::read(Cell cell) {
  return access({.kind = StepKind::kPlainRead, .word = cell.index});
}
void ModelAtomics::write(Cell cell, std::uint64_t value) {
  access({.kind = StepKind::kPlainWrite, .word = cell.index, .operand = value});
}
void ModelAtomics::require(bool condition, const char* what) {
  if (!condition) throw Violated{what};
}
void ModelAtomics::await_change() {
  if (!mutations_.yields_are_waits) return;
  IMEX_ASSERT(wait_began_, "begin_wait() comes before a wait that polls for ever");
  take({.kind = StepKind::kAwaitChange, .operand = *wait_began_});
}

}  // namespace imex::memory::model
