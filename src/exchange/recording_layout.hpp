/// The bytes of a flight recording; docs/formats/flight-recording.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "exchange/recording.hpp"
#include "layout.hpp"

namespace imex::exchange {

inline constexpr std::uint64_t kRecordingMagic = 0x3154'4C46'5845'4d49ULL;  // "IMEXFLT1" in memory
inline constexpr std::uint32_t kRecordingVersion = 1;

/// Written by the rank's thread that has the lane; all words relaxed but `number`.
struct alignas(64) OperationRecord {
  std::atomic<std::uint64_t> number;  ///< 0 while the rest is written
  std::atomic<std::uint64_t> begun_ns;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> what;     ///< kind, type, op as CallFacts packs them; root above
  std::atomic<std::uint64_t> outcome;  ///< 0: it runs; else 1 | algorithm << 8 | error code << 16
  std::uint64_t reserved[3];
};
static_assert(sizeof(OperationRecord) == 64);

struct alignas(64) LaneStatus {
  std::atomic<std::uint64_t> begun, ended;  ///< numbers of the last operations
  std::atomic<std::uint64_t> waits_for;     ///< rank + 1; 0: for nobody, or not for long
  std::atomic<std::uint64_t> waits_since_ns;
  std::uint64_t reserved[4];
};
static_assert(sizeof(LaneStatus) == 64);

struct RecordingHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t lanes;
  std::uint64_t group;
  std::uint64_t generation;
  std::uint32_t rank;
  std::uint32_t ranks;
  std::int32_t pid;
  std::uint32_t reserved;
  std::uint64_t start_ticks;
  LaneStatus status[kLanesMax];
};
static_assert(sizeof(RecordingHeader) <= 4096 && offsetof(RecordingHeader, status) == 64);
inline constexpr std::size_t kRecordingHeaderBytes = 4096;
inline constexpr std::size_t kLaneRecordingBytes = kRecordsPerLane * sizeof(OperationRecord);

}  // namespace imex::exchange
