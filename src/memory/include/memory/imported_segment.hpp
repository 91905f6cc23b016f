/// A peer's segment, mapped into this process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <imex/wait.hpp>

#include "memory/segment.hpp"
#include "os/memory.hpp"

namespace imex::memory {

/// What the daemon says about an export; the segment must agree.
struct SegmentExpectation {
  std::uint64_t size_bytes = 0;
  std::uint32_t generation = 0;
};

/// Refuses a descriptor that its sender can still truncate: touching a page that was cut off is a
/// SIGBUS. `what` names it in the error. Errors: kPermissionDenied (not sealed); kDataLoss (size).
[[nodiscard]] Result<void> check_sealed(int fd, std::uint64_t size_bytes, const char* what);

/// Owns the mapping of one import. begin_operation(), end_operation() and the revocation calls are
/// thread-safe. An operation is anything that touches data(): while one runs, pages stay.
class ImportedSegment {
 public:
  /// Checks both descriptors and the header, then maps the data readable and writable. Borrows the
  /// descriptors; they may be closed afterwards.
  /// Errors: kPermissionDenied (a descriptor is not sealed), kDataLoss, kVersionMismatch, kStale
  /// (other generation), kRevoked, kResourceExhausted.
  [[nodiscard]] static Result<std::unique_ptr<ImportedSegment>> map(
      int data_fd, int control_fd, const SegmentExpectation& expected);

  ImportedSegment(const ImportedSegment&) = delete;
  ImportedSegment& operator=(const ImportedSegment&) = delete;
  ~ImportedSegment();

  [[nodiscard]] std::byte* data() const noexcept { return mapping_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return facts_.size_bytes; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return facts_.generation; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return facts_.rank; }

  /// False once closed. One atomic add. Each true is followed by one end_operation().
  [[nodiscard]] bool begin_operation() noexcept;
  void end_operation() noexcept;

  /// No operation begins from now on. Idempotent.
  void close() noexcept;
  /// close(), then waits for those that run. False if one still ran at `deadline`.
  [[nodiscard]] bool quiesce(SteadyTime deadline) noexcept;
  /// close(), then takes the pages away at once: from now on every access to the range faults,
  /// which report_revoked_access() explains. The range stays reserved while this object lives.
  /// Idempotent.
  void revoke() noexcept;
  [[nodiscard]] bool revoked() const noexcept;

 private:
  ImportedSegment(os::Mapping mapping, const SegmentFacts& facts) noexcept;

  const SegmentFacts facts_;
  os::Mapping mapping_;
  /// Bit 0: closed. Bits 1-31: operations that run. A futex word for quiesce().
  std::atomic<std::uint32_t> operations_{0};
  /// Set once by revoke(), which one thread wins.
  std::atomic<bool> revoked_{false};
  int report_slot_ = -1;  // written by the thread that won revoke(), read by the destructor
};

}  // namespace imex::memory
