#include "memory/abort_page.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "memory/imported_segment.hpp"
#include "memory/wait_protocol.hpp"

namespace imex::memory {

std::uint64_t encode_abort(AbortCause cause) noexcept {
  const Errc code = cause.code == Errc::kOk ? Errc::kInternal : cause.code;
  return static_cast<std::uint64_t>(code) | std::uint64_t{cause.rank} << 32U;
}

AbortCause decode_abort(std::uint64_t word) noexcept {
  const Errc code = errc_from_number(static_cast<std::uint32_t>(word & 0xffffU));
  return {.code = code == Errc::kOk ? Errc::kInternal : code,
          .rank = static_cast<std::uint32_t>(word >> 32U)};
}

Error abort_error(std::uint64_t word) {
  const AbortCause cause = decode_abort(word);
  const std::string who = cause.rank == kNoRank ? "a peer" : fmt::format("rank {}", cause.rank);
  std::string message;
  std::string hint;
  switch (cause.code) {
    case Errc::kPeerLost:
      message = who + " is lost";
      hint = "rebuild the communicator without it, or start it again";
      break;
    case Errc::kRevoked:
      message = "memory of " + who + " was revoked: its GPU left the partition";
      hint = "import again once the GPUs share a partition";
      break;
    case Errc::kAborted:
      message = cause.rank == kNoRank ? "aborted by this process" : "aborted by " + who;
      break;
    default:
      message = fmt::format("ended by {} ({})", who, errc_name(cause.code));
  }
  return {cause.code, std::move(message), std::move(hint), cause.rank};
}

bool trip_abort(AbortCell& cell, AbortCause cause) noexcept {
  HostAtomics atomics;
  return abort_trip(atomics, cell.word, encode_abort(cause));
}

AbortPage::AbortPage(os::UniqueFd fd, os::Mapping mapping, std::uint64_t session_id) noexcept
    : fd_(std::move(fd)), mapping_(std::move(mapping)), session_id_(session_id) {}

AbortPageLayout& AbortPage::layout() const noexcept {
  return *reinterpret_cast<AbortPageLayout*>(mapping_.data());
}

Result<AbortPage> AbortPage::create(std::uint64_t session_id) {
  IMEX_TRY(os::UniqueFd fd, os::make_memfd("imex-abort", kAbortPageBytes));
  IMEX_TRY(os::Mapping mapping, os::Mapping::map(fd.get(), kAbortPageBytes, {.populate = true}));
  AbortPage page(std::move(fd), std::move(mapping), session_id);
  // Published by passing the descriptor on; nobody maps the page before.
  AbortPageHeader& header = page.layout().header;
  header.magic = kAbortPageMagic;
  header.version = kAbortPageVersion;
  header.cell_count = kAbortCellCount;
  header.session_id = session_id;
  return page;
}

Result<AbortPage> AbortPage::adopt(int fd) {
  IMEX_CHECK_OK(check_sealed(fd, kAbortPageBytes, "abort page"));
  IMEX_TRY(os::Mapping mapping, os::Mapping::map(fd, kAbortPageBytes, {.populate = true}));
  // One copy; the peer may change the page while and after we look.
  const auto& shared = *reinterpret_cast<const AbortPageHeader*>(mapping.data());
  const std::uint64_t magic = __atomic_load_n(&shared.magic, __ATOMIC_RELAXED);
  const std::uint16_t version = __atomic_load_n(&shared.version, __ATOMIC_RELAXED);
  const std::uint16_t cell_count = __atomic_load_n(&shared.cell_count, __ATOMIC_RELAXED);
  const std::uint64_t session_id = __atomic_load_n(&shared.session_id, __ATOMIC_RELAXED);
  if (magic != kAbortPageMagic) {
    return fail(Errc::kDataLoss, fmt::format("abort page: magic {:#018x} wanted, {:#018x} found",
                                             kAbortPageMagic, magic));
  }
  if (version != kAbortPageVersion) {
    return fail(
        Errc::kVersionMismatch,
        fmt::format("abort page: layout version {} wanted, {} found", kAbortPageVersion, version),
        "run libimex and imexd of the same release");
  }
  if (cell_count != kAbortCellCount) {
    return fail(Errc::kDataLoss,
                fmt::format("abort page: {} cells wanted, {} found", kAbortCellCount, cell_count));
  }
  return AbortPage(os::UniqueFd(), std::move(mapping), session_id);
}

AbortCell* AbortPage::cell(std::uint32_t index) const noexcept {
  return index < kAbortCellCount ? &layout().cells[index] : nullptr;
}

bool AbortPage::trip(std::uint32_t index, AbortCause cause) const noexcept {
  AbortCell* const target = cell(index);
  return target != nullptr && trip_abort(*target, cause);
}

void AbortPage::reset(std::uint32_t index) const noexcept {
  AbortCell* const target = cell(index);
  // Relaxed: whoever uses the cell next learns of it from this thread.
  if (target != nullptr) target->word.store(0, std::memory_order_relaxed);
}

}  // namespace imex::memory
