#include "journal_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "os/file.hpp"

namespace imex::domain {

namespace {

constexpr std::size_t kJournalBytesMax = 256U << 20U;
/// A log is written anew when it has grown beyond this and beyond four times its shortest form.
constexpr std::size_t kCompactBytesMin = 1U << 20U;
/// Alive then and not since: no lease is that long.
constexpr Time kLongAgo{-std::chrono::nanoseconds(std::chrono::years(100)).count()};

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail(system_error(written < 0 ? errno : ENOSPC, "write the journal"));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

ResumeVerdict judge(const JournalState& state, const JournalHeader& fresh, Nanos lease, Time now) {
  const JournalHeader& old = state.header;
  if (old.boot_id != fresh.boot_id) return ResumeVerdict::kOtherBoot;
  if (old.domain_id != fresh.domain_id) return ResumeVerdict::kOtherDomain;
  if (old.node != fresh.node) return ResumeVerdict::kOtherNode;
  if (state.clean_stop) return ResumeVerdict::kCleanStop;
  const Nanos away = now - Time{old.alive_ns};
  // Never alive in the future: a header that says so is not to be believed.
  if (away < Nanos(0) || away > lease) return ResumeVerdict::kLeaseOver;
  return ResumeVerdict::kResumed;
}

}  // namespace

std::string_view resume_reason(ResumeVerdict verdict) noexcept {
  switch (verdict) {
    case ResumeVerdict::kResumed:
      return "the journal is within its lease";
    case ResumeVerdict::kNoJournal:
      return "there is no journal";
    case ResumeVerdict::kDamaged:
      return "the journal is damaged";
    case ResumeVerdict::kOtherBoot:
      return "the machine was started anew";
    case ResumeVerdict::kOtherDomain:
      return "the journal is of another domain";
    case ResumeVerdict::kOtherNode:
      return "the journal is of another node id";
    case ResumeVerdict::kCleanStop:
      return "the last stop was orderly";
    case ResumeVerdict::kLeaseOver:
      return "the lease is over";
  }
  return "unknown";
}

Result<JournalFile::Opened> JournalFile::open(const std::string& path, const JournalHeader& fresh,
                                              Nanos lease, Time now) {
  ResumeVerdict verdict = ResumeVerdict::kNoJournal;
  std::optional<JournalState> old;
  if (auto bytes = os::read_file(path, kJournalBytesMax)) {
    auto decoded = decode_journal(std::as_bytes(std::span(*bytes)));
    verdict = decoded ? judge(*decoded, fresh, lease, now) : ResumeVerdict::kDamaged;
    if (decoded) old = std::move(*decoded);
  } else if (bytes.error().code != Errc::kNotFound) {
    return fail(std::move(bytes).error().context("read the journal"));
  }
  JournalState state;
  state.header = fresh;
  std::set<NodeId> former_importers;
  if (verdict == ResumeVerdict::kResumed) {
    state = std::move(*old);
    state.header.list_digest = fresh.list_digest;
  } else if (old) {
    const bool same_list = old->header.list_digest == fresh.list_digest;
    if (same_list && !old->clean_stop) former_importers = old->importers;
    state = succeed_journal(std::move(*old), fresh);
    // They count until they have come back: a crash while waiting must not forget them.
    state.importers = former_importers;
  }
  state.header.alive_ns = now.ns;
  Opened opened{JournalFile(path, std::move(state)), verdict, std::move(former_importers)};
  IMEX_CHECK_OK(opened.file.rewrite());
  return opened;
}

Result<void> JournalFile::append(const JournalRecord& record) {
  apply_journal_record(state_, record);
  // Peers hear that this instance ends, so nobody may go on as it, on a full disk either: the eight
  // bytes in place need no space.
  if (state_.clean_stop) touch_alive(kLongAgo);
  if (broken_) return fail(Errc::kResourceExhausted, "the journal cannot be written");
  const std::vector<std::byte> bytes = encode_journal_record(record);
  if (auto written = write_all(fd_.get(), bytes); !written) {
    broken_ = true;  // until rewrite(): a torn record in the middle would hide all after it
    [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(size_bytes_));
    return written;
  }
  size_bytes_ += bytes.size();
  const bool grown = size_bytes_ > kCompactBytesMin && size_bytes_ > 4 * compact_bytes_;
  if (grown) return rewrite();
  return {};
}

Result<void> JournalFile::rewrite() {
  const std::vector<std::byte> bytes = compact_journal(state_);
  const std::string beside = path_ + ".new";
  os::UniqueFd fd(::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) {
    broken_ = true;
    return fail(system_error(errno, "create " + beside));
  }
  auto written = write_all(fd.get(), bytes);
  if (written && std::rename(beside.c_str(), path_.c_str()) != 0) {
    written = fail(system_error(errno, fmt::format("rename {} to {}", beside, path_)));
  }
  if (!written) {
    broken_ = true;
    ::unlink(beside.c_str());
    return written;
  }
  // Appends go to the new file through this descriptor; its offset is at the end.
  fd_ = std::move(fd);
  size_bytes_ = compact_bytes_ = bytes.size();
  broken_ = false;
  return {};
}

void JournalFile::touch(Time now) noexcept {
  if (!state_.clean_stop) touch_alive(now);
}

void JournalFile::touch_alive(Time now) noexcept {
  state_.header.alive_ns = now.ns;
  [[maybe_unused]] const auto written =
      ::pwrite(fd_.get(), &now.ns, sizeof now.ns, static_cast<off_t>(kJournalAliveOffset));
}

}  // namespace imex::domain
