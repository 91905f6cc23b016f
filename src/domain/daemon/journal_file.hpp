/// The journal on disk: what lets a daemon that restarts go on as the same instance.
///
/// Records are appended by write(2), which survives the daemon's own death, and never synced: after
/// a reboot the boot id differs and the journal is void anyway. The file lives in the run
/// directory, whose lock says that nobody else writes it.
#pragma once

#include <string>

#include "base/time.hpp"
#include "domain/journal.hpp"
#include "os/fd.hpp"

namespace imex::domain {

/// Why the daemon goes on as the instance of the journal, or not.
enum class ResumeVerdict : std::uint8_t {
  kResumed,
  kNoJournal,
  kDamaged,
  kOtherBoot,
  kOtherDomain,
  kOtherNode,
  kCleanStop,
  kLeaseOver,
};
[[nodiscard]] std::string_view resume_reason(ResumeVerdict verdict) noexcept;

class JournalFile {
 public:
  struct Opened;

  /// Reads what is there, decides, and writes the shortest log that says the same. `fresh` has the
  /// identity of this start; instance and key of the journal replace its own on a resume. What
  /// outlives the instance: the channel numbers of others (succeed_journal()), and importers after
  /// an unclean stop, given back for quorum RECOVERY if the node list is the same. Errors: the file
  /// cannot be written.
  [[nodiscard]] static Result<Opened> open(const std::string& path, const JournalHeader& fresh,
                                           Nanos lease, Time now);

  /// Errors: the disk is full or broken; the file is as before then, and broken() until rewrite().
  /// Nobody resumes after a CleanStopRecord, whether it could be written or not.
  [[nodiscard]] Result<void> append(const JournalRecord& record);
  /// Writes the whole state anew, beside, and renames it over the file.
  [[nodiscard]] Result<void> rewrite();
  /// Notes that the daemon lives; eight bytes in place, which need no space.
  void touch(Time now) noexcept;

  [[nodiscard]] bool broken() const noexcept { return broken_; }
  [[nodiscard]] const JournalState& state() const noexcept { return state_; }

 private:
  JournalFile(std::string path, JournalState state)
      : path_(std::move(path)), state_(std::move(state)) {}
  void touch_alive(Time at) noexcept;

  std::string path_;
  JournalState state_;
  os::UniqueFd fd_;
  std::size_t size_bytes_ = 0;
  std::size_t compact_bytes_ = 0;  ///< size after the last rewrite
  bool broken_ = false;
};

struct JournalFile::Opened {
  JournalFile file;
  ResumeVerdict verdict = ResumeVerdict::kNoJournal;
  std::set<NodeId> former_importers;  ///< of an unclean stop that was not resumed
};

}  // namespace imex::domain
