/// What a daemon must know to resume as the same instance: a log of checksummed records.
/// Codec only (bytes in, bytes out); the daemon appends with write(2), which survives its own
/// death, and never waits for the disk: after a reboot the boot id differs and the journal is void
/// anyway. Format: docs/formats/journal.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "base/uuid.hpp"
#include "domain/channel_registry.hpp"
#include "domain/frame.hpp"

namespace imex::domain {

struct JournalHeader {
  Uuid boot_id;
  Uuid domain_id;
  Uuid instance;
  Secret key{};
  NodeId node = kNoNode;
  Uuid list_digest;           ///< of the node list; another list empties `importers`
  std::int64_t alive_ns = 0;  ///< boot time when the daemon was last alive; rewritten in place
  friend bool operator==(const JournalHeader&, const JournalHeader&) = default;
};
/// Offset and size of alive_ns in the file, for the rewrite in place.
inline constexpr std::size_t kJournalAliveOffset = 96;
inline constexpr std::size_t kJournalHeaderBytes = 128;
/// Longest name of a workload, and most GPUs or holders of one record; longer ones do not fit a
/// record and must be refused where they come in (our own mistake here).
inline constexpr std::size_t kWorkloadBytesMax = 255;
inline constexpr std::size_t kJournalListMax = 4096;

struct SessionRecord {
  SessionId id = 0;
  std::uint32_t channel = 0;
  std::uint32_t uid = 0;
  std::uint64_t gpu_uid = 0;
  std::int32_t pid = 0;               ///< as the daemon sees it; 0: not visible from here
  std::uint64_t pid_start_ticks = 0;  ///< field 22 of /proc/PID/stat: tells a reused pid apart
  friend bool operator==(const SessionRecord&, const SessionRecord&) = default;
};
struct SessionEndedRecord {
  SessionId id = 0;
  friend bool operator==(const SessionEndedRecord&, const SessionEndedRecord&) = default;
};
struct NextIdRecord {
  std::uint64_t next_id = 0;
  friend bool operator==(const NextIdRecord&, const NextIdRecord&) = default;
};
struct ImporterRecord {
  NodeId node = kNoNode;
  bool present = false;
  friend bool operator==(const ImporterRecord&, const ImporterRecord&) = default;
};
struct AssignmentRecord {
  ChannelAssignment assignment;
  friend bool operator==(const AssignmentRecord&, const AssignmentRecord&) = default;
};
/// A grant on this node: what the channel's socket allows.
struct GrantRecord {
  std::string workload;
  std::uint32_t channel = 0;
  std::uint32_t uid = 0;
  std::vector<std::uint64_t> gpu_uids;
  friend bool operator==(const GrantRecord&, const GrantRecord&) = default;
};
struct ReleaseRecord {
  std::string workload;
  friend bool operator==(const ReleaseRecord&, const ReleaseRecord&) = default;
};
struct CleanStopRecord {
  friend bool operator==(const CleanStopRecord&, const CleanStopRecord&) = default;
};  ///< orderly end: the next start is a new instance

using JournalRecord = std::variant<SessionRecord, SessionEndedRecord, NextIdRecord, ImporterRecord,
                                   AssignmentRecord, GrantRecord, ReleaseRecord, CleanStopRecord>;

/// The state that a log adds up to.
struct JournalState {
  JournalHeader header;
  std::map<SessionId, SessionRecord> sessions;
  std::uint64_t next_id = 1;
  std::set<NodeId> importers;
  std::map<std::string, ChannelAssignment> assignments;  ///< by workload
  std::map<std::string, GrantRecord> grants;             ///< by workload
  bool clean_stop = false;
  friend bool operator==(const JournalState&, const JournalState&) = default;
};

[[nodiscard]] std::vector<std::byte> encode_journal_header(const JournalHeader& header);
[[nodiscard]] std::vector<std::byte> encode_journal_record(const JournalRecord& record);
/// A torn or damaged tail is cut (`bytes_used` says where); damage before it is kDataLoss.
/// Errors: kDataLoss, kVersionMismatch.
[[nodiscard]] Result<JournalState> decode_journal(std::span<const std::byte> bytes,
                                                  std::size_t* bytes_used = nullptr);
/// Adds one record to the state; the same as decoding it from the end of the log.
void apply_journal_record(JournalState& state, const JournalRecord& record);
/// The first state of a new instance that finds the journal of another one (lease over, orderly
/// stop, machine started anew, other node id): the channel numbers that other nodes hold, and
/// nothing else. A number is safe because every node of the majority that took it remembers it; one
/// that forgot would help to give it out twice. What the former instance granted itself ended with
/// it, and the others were told so. Of another domain: nothing at all.
[[nodiscard]] JournalState succeed_journal(JournalState former, const JournalHeader& fresh);
/// The shortest log that gives `state`: header and records.
[[nodiscard]] std::vector<std::byte> compact_journal(const JournalState& state);

}  // namespace imex::domain
