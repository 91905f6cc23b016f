#include "memory/imported_segment.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "os/futex.hpp"
#include "revoked_access.hpp"

namespace imex::memory {

namespace {
constexpr std::uint32_t kClosed = 1;
constexpr std::uint32_t kOneOperation = 2;
}  // namespace

Result<void> check_sealed(int fd, std::uint64_t size_bytes, const char* what) {
  IMEX_TRY(const os::FileFacts facts, os::file_facts(fd));
  if (!facts.sealed_shrink) {
    return fail(Errc::kPermissionDenied,
                fmt::format("{}: a memory file sealed against shrinking wanted, one found that its "
                            "sender can truncate",
                            what));
  }
  if (facts.size_bytes != size_bytes) {
    return fail(Errc::kDataLoss,
                fmt::format("{}: {} bytes wanted, {} found", what, size_bytes, facts.size_bytes));
  }
  return {};
}

Result<std::unique_ptr<ImportedSegment>> ImportedSegment::map(int data_fd, int control_fd,
                                                              const SegmentExpectation& expected) {
  // Seals first: from here on no size can change under us.
  IMEX_CHECK_OK(check_sealed(control_fd, kControlBytes, "segment control page"));
  IMEX_TRY(const os::Mapping control,
           os::Mapping::map(control_fd, kControlBytes, {.access = os::Mapping::Access::kRead}));
  IMEX_TRY(const SegmentFacts facts, read_segment_header(control.bytes()));
  if (facts.generation != expected.generation) {
    return fail(Errc::kStale, fmt::format("segment: generation {} wanted, {} found",
                                          expected.generation, facts.generation));
  }
  if (facts.size_bytes != expected.size_bytes) {
    return fail(Errc::kDataLoss, fmt::format("segment: size of {} bytes wanted, {} stated",
                                             expected.size_bytes, facts.size_bytes));
  }
  IMEX_CHECK_OK(check_sealed(data_fd, facts.mapped_bytes(), "segment data"));
  IMEX_TRY(os::Mapping data, os::Mapping::map(data_fd, facts.mapped_bytes()));
  // Private constructor: make_unique cannot call it.
  return std::unique_ptr<ImportedSegment>(new ImportedSegment(std::move(data), facts));
}

ImportedSegment::ImportedSegment(os::Mapping mapping, const SegmentFacts& facts) noexcept
    : facts_(facts), mapping_(std::move(mapping)) {}

ImportedSegment::~ImportedSegment() {
  IMEX_ASSERT(operations_.load(std::memory_order_acquire) < kOneOperation,
              "an import ends after its operations");
  forget_revoked_range(report_slot_);
}

bool ImportedSegment::begin_operation() noexcept {
  // [A] acquire: pairs with the release in [C]; nothing of the operation happens before it.
  const std::uint32_t before = operations_.fetch_add(kOneOperation, std::memory_order_acquire);
  if ((before & kClosed) == 0) return true;
  end_operation();
  return false;
}

void ImportedSegment::end_operation() noexcept {
  // [B] release: pairs with [D]; all accesses of the operation precede the end of the pages.
  const std::uint32_t before = operations_.fetch_sub(kOneOperation, std::memory_order_release);
  IMEX_ASSERT(before >= kOneOperation, "each operation ends once");
  if (before == (kClosed | kOneOperation)) os::futex_wake_all(&operations_);
}

void ImportedSegment::close() noexcept {
  operations_.fetch_or(kClosed, std::memory_order_release);  // [C] pairs with [A]
}

bool ImportedSegment::quiesce(SteadyTime deadline) noexcept {
  close();
  for (;;) {
    const std::uint32_t seen = operations_.load(std::memory_order_acquire);  // [D] pairs with [B]
    if (seen < kOneOperation) return true;
    // Each change of the count gives another look. The one to zero wakes us: the flag and the count
    // share the futex word.
    if (os::futex_wait(&operations_, seen, deadline) == os::FutexResult::kTimedOut) {
      return operations_.load(std::memory_order_acquire) < kOneOperation;  // [D]
    }
  }
}

void ImportedSegment::revoke() noexcept {
  close();
  // acq_rel: one thread wins; the destructor follows all calls by the owner's own ordering.
  if (revoked_.exchange(true, std::memory_order_acq_rel)) return;
  // Noted before the pages go, so that no fault meets an empty table.
  report_slot_ = note_revoked_range({.begin = reinterpret_cast<std::uintptr_t>(mapping_.data()),
                                     .size_bytes = mapping_.size(),
                                     .rank = facts_.rank,
                                     .generation = facts_.generation});
  mapping_.make_inaccessible();
}

bool ImportedSegment::revoked() const noexcept { return revoked_.load(std::memory_order_acquire); }

}  // namespace imex::memory
