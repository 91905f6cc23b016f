/// Writes the flight recording of one rank: a few plain stores per operation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "os/memory.hpp"
#include "recording_layout.hpp"

namespace imex::exchange {

struct CallFacts;

/// Of one lane; used by the thread that has it. Without a recording every call does nothing.
class LaneRecorder {
 public:
  LaneRecorder() = default;
  LaneRecorder(LaneStatus* status, OperationRecord* records) noexcept
      : status_(status), records_(records) {}

  void begin(std::uint64_t what, std::uint64_t bytes) noexcept;
  void end(Algorithm algorithm, Errc result) noexcept;
  /// A wait for `rank` that is not over at once; kNoRank: it is over.
  void waits_for(std::uint32_t rank) noexcept;

 private:
  LaneStatus* status_ = nullptr;
  OperationRecord* records_ = nullptr;
  std::uint64_t number_ = 0;
};

/// Owns the file: removed when the rank ends in order.
class Recorder {
 public:
  struct Identity {
    std::uint64_t group, generation;
    std::uint32_t rank, ranks, lanes;
  };
  /// Null where no file can be made: a recording is worth no failure.
  [[nodiscard]] static std::unique_ptr<Recorder> create(const std::string& directory,
                                                        const Identity& who);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  [[nodiscard]] LaneRecorder lane(std::uint32_t number) const noexcept;

 private:
  Recorder(std::string path, os::Mapping mapping) noexcept;
  const std::string path_;
  const os::Mapping mapping_;
  const std::int32_t pid_;
};

}  // namespace imex::exchange
