#include "revoked_access.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <string_view>

#include <imex/session.hpp>

#include "base/result.hpp"

namespace imex {

namespace memory {

namespace {

/// `begin` publishes the entry: 0 is free, kClaimed is being written, else the other fields are
/// whole.
struct Slot {
  std::atomic<std::uintptr_t> begin;
  std::atomic<std::size_t> size_bytes;
  std::atomic<std::uint64_t> rank_and_generation;
};
constexpr std::uintptr_t kClaimed = 1;
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

constinit std::array<Slot, kRevokedRangesMax> g_slots{};

}  // namespace

int note_revoked_range(const RevokedRange& range) noexcept {
  for (int i = 0; i != kRevokedRangesMax; ++i) {
    Slot& slot = g_slots[static_cast<std::size_t>(i)];
    std::uintptr_t free = 0;
    // Acquire: pairs with [C]; the former entry's fields are done with.
    if (!slot.begin.compare_exchange_strong(free, kClaimed, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      continue;
    }
    // Relaxed: published by [A]. A reader of the former entry may mix the two, which costs one
    // wrong number in a message about a range that was just unmapped.
    slot.size_bytes.store(range.size_bytes, std::memory_order_relaxed);
    slot.rank_and_generation.store(std::uint64_t{range.rank} << 32U | range.generation,
                                   std::memory_order_relaxed);
    slot.begin.store(range.begin, std::memory_order_release);  // [A] pairs with [B]
    return i;
  }
  return -1;
}

void forget_revoked_range(int slot) noexcept {
  if (slot < 0) return;
  g_slots[static_cast<std::size_t>(slot)].begin.store(0, std::memory_order_release);  // [C]
}

std::optional<RevokedRange> find_revoked_range(std::uintptr_t address) noexcept {
  for (const Slot& slot : g_slots) {
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);  // [B] pairs with [A]
    if (begin <= kClaimed || address < begin) continue;
    const std::size_t size_bytes = slot.size_bytes.load(std::memory_order_relaxed);
    if (address - begin >= size_bytes) continue;
    const std::uint64_t packed = slot.rank_and_generation.load(std::memory_order_relaxed);
    return RevokedRange{.begin = begin,
                        .size_bytes = size_bytes,
                        .rank = static_cast<std::uint32_t>(packed >> 32U),
                        .generation = static_cast<std::uint32_t>(packed)};
  }
  return std::nullopt;
}

namespace {

/// A line built without allocation or locale: all that a signal handler may use.
class Line {
 public:
  Line& text(std::string_view part) noexcept {
    const std::size_t count =
        part.size() < sizeof(bytes_) - used_ ? part.size() : sizeof(bytes_) - used_;
    std::memcpy(bytes_ + used_, part.data(), count);
    used_ += count;
    return *this;
  }
  Line& number(std::uint64_t value, int base = 10) noexcept {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value, base).ptr;
    return text({digits, static_cast<std::size_t>(end - digits)});
  }
  void write_to_stderr() const noexcept {
    std::size_t done = 0;
    while (done < used_) {
      const ssize_t count = ::write(STDERR_FILENO, bytes_ + done, used_ - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  char bytes_[512];
  std::size_t used_ = 0;
};

void explain(std::uintptr_t address, const RevokedRange& range) noexcept {
  Line line;
  line.text("imex: access to revoked memory at 0x").number(address, 16);
  line.text(": byte ").number(address - range.begin).text(" of an import of ");
  line.number(range.size_bytes).text(" bytes");
  if (range.rank != kNoRank) line.text(" from rank ").number(range.rank);
  line.text(", generation ").number(range.generation);
  line.text(
      "; the exporter's GPU left the partition. Wait for kImportRevoked, and bracket accesses with "
      "Import::begin_operation()\n");
  line.write_to_stderr();
}

/// Written once by report_revoked_access() before the handler can run.
struct sigaction g_former;

/// Runs whoever handled SIGSEGV before us; without one the access repeats under the default action,
/// so that the process ends (and dumps core) at the very instruction.
void chain(int number, siginfo_t* info, void* context) {
  if ((g_former.sa_flags & SA_SIGINFO) != 0) {
    g_former.sa_sigaction(number, info, context);
  } else if (g_former.sa_handler != SIG_DFL && g_former.sa_handler != SIG_IGN) {
    g_former.sa_handler(number);
  } else {
    struct sigaction fallback{};
    fallback.sa_handler = SIG_DFL;
    ::sigaction(SIGSEGV, &fallback, nullptr);
  }
}

void on_fault(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // si_code > 0: the kernel raised it for an access, not kill(); only then is there an address.
  if (info->si_code > 0) {
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (const auto range = find_revoked_range(address)) explain(address, *range);
  }
  errno = saved_errno;
  chain(number, info, context);
}

}  // namespace

}  // namespace memory

Result<void> report_revoked_access() {
  static std::mutex mutex;
  static bool installed = false;
  const std::scoped_lock lock(mutex);
  if (installed) return {};
  if (::sigaction(SIGSEGV, nullptr, &memory::g_former) != 0) {
    return fail(system_error(errno, "read the handler of SIGSEGV"));
  }
  struct sigaction action{};
  action.sa_sigaction = memory::on_fault;
  // On the alternate stack where the thread has one; the former handler may count on it.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (memory::g_former.sa_flags & SA_NODEFER);
  action.sa_mask = memory::g_former.sa_mask;
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) {
    return fail(system_error(errno, "install the handler of SIGSEGV"));
  }
  installed = true;
  return {};
}

}  // namespace imex
