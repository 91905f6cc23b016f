/// What ranks were doing: the last operations of each, kept in files that outlive the processes.
/// Bytes: docs/formats/flight-recording.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <imex/communicator.hpp>
#include <imex/result.hpp>

namespace imex::exchange {

inline constexpr std::uint32_t kRecordsPerLane = 1024;

struct RecordedOperation {
  std::uint64_t number = 0;    ///< on its lane, from 1
  std::uint64_t begun_ns = 0;  ///< steady clock, in steps of a few milliseconds
  std::string name;            ///< "all_reduce"
  std::uint64_t bytes = 0;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t root = kNoRank;  ///< or the peer
  Algorithm algorithm = Algorithm::kAuto;
  bool ended = false;
  Errc result = Errc::kOk;
};

struct RecordedLane {
  std::uint64_t begun = 0, ended = 0;  ///< numbers of the last operations
  std::uint32_t waits_for = kNoRank;   ///< a rank
  std::uint64_t waits_since_ns = 0;
  std::vector<RecordedOperation> operations;  ///< the newest last
};

/// One rank of one communicator.
struct Recording {
  std::string path;
  std::uint64_t group = 0;  ///< the same for all ranks of a communicator
  std::uint64_t generation = 0;
  std::uint32_t rank = 0, ranks = 0;
  std::int32_t pid = 0;
  bool alive = false;  ///< the process that wrote it
  std::vector<RecordedLane> lanes;
};

/// Where this user's ranks leave their recordings: $IMEX_RECORD_DIR; /run/imex/communicators
/// (root), $XDG_RUNTIME_DIR/imex/communicators, /tmp/imex-UID/communicators.
[[nodiscard]] std::string recording_directory();

/// Errors: kNotFound, kDataLoss (names what is wrong with the file).
[[nodiscard]] Result<Recording> read_recording(const std::string& path);
/// All that can be read, by group and rank. A rank that ended in order leaves none.
[[nodiscard]] Result<std::vector<Recording>> read_recordings(const std::string& directory);

/// Who waits for whom since when: a line per rank. `now_ns` of the steady clock.
[[nodiscard]] std::string describe(const std::vector<Recording>& group, std::uint64_t now_ns);

}  // namespace imex::exchange
