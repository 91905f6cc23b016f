#include "recorder.hpp"

#include <filesystem>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

/// Recordings of ranks that crashed are for somebody to read, but not for ever.
constexpr std::ptrdiff_t kLeftoversMax = 256;

/// Removes recordings of ended processes when they have become too many. Counts names first: it
/// runs whenever a communicator begins.
void tidy(const std::string& directory) {
  std::error_code error;
  const std::filesystem::directory_iterator names(directory, error);
  if (error || std::distance(begin(names), end(names)) < kLeftoversMax) return;
  const auto all = read_recordings(directory);
  if (!all) return;
  for (const Recording& each : *all) {
    if (!each.alive) os::remove_file(each.path);
  }
}

}  // namespace

void LaneRecorder::begin(std::uint64_t what, std::uint64_t bytes) noexcept {
  if (status_ == nullptr) return;
  OperationRecord& record = records_[number_++ % kRecordsPerLane];
  record.number.store(0, std::memory_order_relaxed);
  // Release on each word keeps 0 before them and the number after them in memory, so that who died
  // in between left no mixed record. On x86-64 these are plain stores.
  record.begun_ns.store(os::coarse_clock_ns(), std::memory_order_release);
  record.bytes.store(bytes, std::memory_order_release);
  record.what.store(what, std::memory_order_release);
  record.outcome.store(0, std::memory_order_release);
  record.number.store(number_, std::memory_order_release);
  status_->begun.store(number_, std::memory_order_relaxed);
}

void LaneRecorder::end(Algorithm algorithm, Errc result) noexcept {
  if (status_ == nullptr) return;
  OperationRecord& record = records_[(number_ - 1) % kRecordsPerLane];
  record.outcome.store(
      1 | static_cast<std::uint64_t>(algorithm) << 8U | static_cast<std::uint64_t>(result) << 16U,
      std::memory_order_relaxed);
  status_->ended.store(number_, std::memory_order_relaxed);
  // The next record left the nearest cache a thousand operations ago.
  __builtin_prefetch(&records_[number_ % kRecordsPerLane], 1);
}

void LaneRecorder::waits_for(std::uint32_t rank) noexcept {
  if (status_ == nullptr) return;
  if (rank != kNoRank)
    status_->waits_since_ns.store(os::coarse_clock_ns(), std::memory_order_relaxed);
  status_->waits_for.store(rank == kNoRank ? 0 : std::uint64_t{rank} + 1,
                           std::memory_order_release);
}

Recorder::Recorder(std::string path, os::Mapping mapping) noexcept
    : path_(std::move(path)), mapping_(std::move(mapping)), pid_(os::process_id()) {}

Recorder::~Recorder() {
  if (pid_ == os::process_id()) os::remove_file(path_);  // not in a child of fork()
}

std::unique_ptr<Recorder> Recorder::create(const std::string& directory, const Identity& who) {
  if (!os::make_directories(directory) || !os::check_own_directory(directory)) return nullptr;
  if (who.rank == 0) tidy(directory);
  const std::string path =
      fmt::format("{}/{:016x}-{}-{}", directory, who.group, who.rank, os::process_id());
  const std::size_t bytes = kRecordingHeaderBytes + who.lanes * kLaneRecordingBytes;
  const auto fd = os::create_file(path, bytes);
  if (!fd) return nullptr;
  auto mapping = os::Mapping::map(fd->get(), bytes);
  const auto ticks = os::process_start_ticks(os::process_id());
  if (!mapping || !ticks) {
    os::remove_file(path);
    return nullptr;
  }
  auto& header = *new (mapping->data()) RecordingHeader();
  header.version = kRecordingVersion;
  header.lanes = who.lanes;
  header.group = who.group;
  header.generation = who.generation;
  header.rank = who.rank;
  header.ranks = who.ranks;
  header.pid = os::process_id();
  header.start_ticks = *ticks;
  header.magic = kRecordingMagic;
  return std::unique_ptr<Recorder>(new Recorder(path, std::move(*mapping)));  // private constructor
}

LaneRecorder Recorder::lane(std::uint32_t number) const noexcept {
  auto* const base = const_cast<std::byte*>(mapping_.data());
  auto& header = *reinterpret_cast<RecordingHeader*>(base);
  return {&header.status[number], reinterpret_cast<OperationRecord*>(base + kRecordingHeaderBytes +
                                                                     number * kLaneRecordingBytes)};
}

}  // namespace imex::exchange
