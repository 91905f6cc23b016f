// The C API of allocations, handles, signals and scopes.
#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "c_support.hpp"

namespace {

using imex::c::failed;
using imex::c::missing;

static_assert(sizeof(imex_signal) == sizeof(imex::SignalCell) &&
              alignof(imex_signal) == alignof(imex::SignalCell));
static_assert(sizeof(imex_handle) == sizeof(imex::Handle));

imex::SignalCell& cell_of(imex_signal* signal) {
  return *reinterpret_cast<imex::SignalCell*>(signal);
}

imex::Handle to_handle(const imex_handle& handle) {
  imex::Handle result;
  std::memcpy(result.bytes.data(), handle.bytes, sizeof handle.bytes);
  return result;
}

imex::SteadyTime to_deadline(std::uint64_t deadline_ns) {
  // steady_clock is CLOCK_MONOTONIC in both C++ libraries of Linux.
  constexpr auto kLast = static_cast<std::uint64_t>(imex::SteadyTime::duration::max().count());
  if (deadline_ns >= kLast) return imex::kNoDeadline;
  return imex::SteadyTime(std::chrono::nanoseconds(static_cast<std::int64_t>(deadline_ns)));
}

}  // namespace

imex::Result<imex::AllocationOptions> imex::c::to_allocation_options(
    const imex_allocation_options* given) {
  auto chosen = options_or_default(imex_allocation_options IMEX_ALLOCATION_OPTIONS_INIT, given);
  if (!chosen) return fail(std::move(chosen).error());
  if (chosen->pages > IMEX_PAGES_SMALL) {
    return fail(Errc::kInvalidArgument,
                "allocate: pages is " + std::to_string(chosen->pages) + ", not an imex_pages");
  }
  return AllocationOptions{.alignment = chosen->alignment,
                           .pages = static_cast<Pages>(chosen->pages),
                           .prefault = chosen->prefault != 0};
}

int imex_allocate(size_t size_bytes, const imex_allocation_options* options,
                  imex_allocation** out) {
  if (out == nullptr) return missing("out");
  const auto chosen = imex::c::to_allocation_options(options);
  if (!chosen) return failed(chosen.error());
  return imex::c::give(imex::Allocation::create(size_bytes, *chosen), out);
}

void imex_free(imex_allocation* allocation) { delete allocation; }
void* imex_allocation_data(const imex_allocation* allocation) {
  return const_cast<std::byte*>(allocation->value.data());
}
size_t imex_allocation_size(const imex_allocation* allocation) { return allocation->value.size(); }
size_t imex_allocation_page_bytes(const imex_allocation* allocation) {
  return allocation->value.page_bytes();
}

void imex_handle_to_hex(const imex_handle* handle, char out[129]) {
  const std::string text = to_handle(*handle).to_hex();
  std::memcpy(out, text.c_str(), text.size() + 1);
}

int imex_handle_from_hex(const char* text, imex_handle* out) {
  if (text == nullptr) return missing("text");
  if (out == nullptr) return missing("out");
  auto handle = imex::Handle::from_hex(text);
  if (!handle) return failed(std::move(handle).error());
  std::memcpy(out->bytes, handle->bytes.data(), sizeof out->bytes);
  return IMEX_OK;
}

void imex_scope_abort(imex_scope scope, uint32_t by_rank) {
  imex::c::to_scope(scope).abort(by_rank);
}

int imex_scope_error(imex_scope scope) {
  auto error = imex::c::to_scope(scope).error();
  return error ? failed(std::move(*error)) : IMEX_OK;
}

uint64_t imex_deadline_after_ms(uint64_t milliseconds) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
  if (milliseconds > (IMEX_NO_DEADLINE - now_ns) / 1'000'000) return IMEX_NO_DEADLINE;
  return now_ns + milliseconds * 1'000'000;
}

void imex_signal_notify(imex_signal* signal, uint32_t count) {
  imex::Signal(cell_of(signal)).notify(count);
}
void imex_signal_abandon(imex_signal* signal) { imex::Signal(cell_of(signal)).abandon(); }
uint64_t imex_signal_count(const imex_signal* signal) {
  return imex::Signal(cell_of(const_cast<imex_signal*>(signal))).count();  // only reads
}

int imex_signal_wait(imex_signal* signal, uint64_t target, const imex_wait_options* options,
                     uint64_t* seen) {
  if (signal == nullptr) return missing("signal");
  auto chosen = imex::c::options_or_default(imex_wait_options IMEX_WAIT_OPTIONS_INIT, options);
  if (!chosen) return failed(std::move(chosen).error());
  const imex::WaitResult result =
      imex::Signal(cell_of(signal))
          .wait_until(target, {.deadline = to_deadline(chosen->deadline_ns),
                               .abort = imex::c::to_scope(chosen->scope).cell(),
                               .policy = {.spin_ns = chosen->spin_ns,
                                          .pause_ns = chosen->pause_ns,
                                          .yield_rounds = chosen->yield_rounds,
                                          .sleep = chosen->sleep != 0}});
  if (seen != nullptr) *seen = result.seen;
  if (result.ok()) return IMEX_OK;
  return failed(result.to_result().error());
}

int imex_report_revoked_access() {
  auto done = imex::report_revoked_access();
  return done ? IMEX_OK : failed(std::move(done).error());
}
