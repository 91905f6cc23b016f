/// What one step does to the memory of a modelled execution; the search in checker.cpp decides
/// which step comes next. The rules are those of memory_state.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "model/checker.hpp"
#include "model/memory_state.hpp"

namespace imex::memory::model {

constexpr bool is_seq_cst(std::memory_order order) noexcept {
  return order == std::memory_order_seq_cst;
}

/// Two states of one hash are taken for the same. With a million states the chance that any two of
/// them meet in 64 bits is below 1 in 10 million.
[[nodiscard]] std::uint64_t hash_state(const MemoryState& state) noexcept;

/// The oldest message that a thread may read.
[[nodiscard]] std::size_t oldest(const MemoryState& state, const ThreadState& thread,
                                 std::uint8_t word, bool seq_cst) noexcept;
/// Whether a waiting thread could read something newer than it did.
[[nodiscard]] bool has_news(const MemoryState& state, const ThreadState& thread) noexcept;

void append_log(ThreadState& thread, std::uint64_t result);
/// A thread that read only stale or unwanted values and is about to look again is where its wait
/// began, but for what it may still read: forgetting the look makes polling loops finite.
void end_round(ThreadState& thread, std::size_t wait_began);
void break_round(ThreadState& thread);

std::uint64_t do_load(MemoryState& state, ThreadState& thread, const Step& step,
                      std::size_t position);
void do_store(MemoryState& state, ThreadState& thread, const Step& step, std::size_t position);
/// Reads the newest message and puts its result right behind.
std::uint64_t do_rmw(MemoryState& state, ThreadState& thread, const Step& step);
/// A payload access; the text of a data race, or nothing.
[[nodiscard]] std::optional<std::string> do_plain(MemoryState& state, std::size_t index,
                                                  const Step& step, std::uint64_t& result);
void do_wake(MemoryState& state, const ThreadState& waker, std::uint8_t word);

}  // namespace imex::memory::model
