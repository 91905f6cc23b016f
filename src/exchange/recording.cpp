#include "exchange/recording.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "base/result.hpp"
#include "base/units.hpp"
#include "call_facts.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "recording_layout.hpp"

namespace imex::exchange {

namespace {

constexpr std::size_t kRecordingBytesMax = kRecordingHeaderBytes + kLanesMax * kLaneRecordingBytes;

tl::unexpected<Error> damaged(const std::string& path, const std::string& why) {
  return fail(Errc::kDataLoss, fmt::format("flight recording '{}': {}", path, why));
}

/// Nothing where the record was being written, or does not belong here. One of a rank that still
/// runs may be overwritten while it is read, and then mixes two operations.
std::optional<RecordedOperation> operation_of(const OperationRecord& record, std::uint32_t place) {
  RecordedOperation operation;
  operation.number = record.number.load(std::memory_order_relaxed);
  if (operation.number == 0 || (operation.number - 1) % kRecordsPerLane != place)
    return std::nullopt;
  operation.begun_ns = record.begun_ns.load(std::memory_order_relaxed);
  const CallFacts facts = CallFacts::unpacked(record.what.load(std::memory_order_relaxed),
                                              record.bytes.load(std::memory_order_relaxed));
  operation.name = std::string(facts.name());
  operation.bytes = facts.bytes;
  operation.type = facts.type;
  operation.op = facts.op;
  operation.root = facts.root;
  const std::uint64_t outcome = record.outcome.load(std::memory_order_relaxed);
  operation.ended = outcome != 0;
  const auto algorithm = outcome >> 8U & 0xffU;
  if (algorithm < kAlgorithmCount) operation.algorithm = static_cast<Algorithm>(algorithm);
  operation.result = static_cast<Errc>(outcome >> 16U & 0xffffU);
  return operation;
}

RecordedLane lane_of(const LaneStatus& status, const OperationRecord* records) {
  RecordedLane lane;
  lane.begun = status.begun.load(std::memory_order_relaxed);
  lane.ended = status.ended.load(std::memory_order_relaxed);
  const std::uint64_t awaited = status.waits_for.load(std::memory_order_relaxed);
  if (awaited != 0 && awaited <= kRanksMax) {
    lane.waits_for = static_cast<std::uint32_t>(awaited - 1);
    lane.waits_since_ns = status.waits_since_ns.load(std::memory_order_relaxed);
  }
  for (std::uint32_t i = 0; i != kRecordsPerLane; ++i) {
    if (auto operation = operation_of(records[i], i))
      lane.operations.push_back(std::move(*operation));
  }
  std::ranges::sort(lane.operations, {}, &RecordedOperation::number);
  return lane;
}

bool runs(std::int32_t pid, std::uint64_t start_ticks) {
  const auto ticks = os::process_start_ticks(pid);
  return ticks && *ticks == start_ticks;
}

std::string age(std::uint64_t then_ns, std::uint64_t now_ns) {
  const double seconds = now_ns > then_ns ? static_cast<double>(now_ns - then_ns) / 1e9 : 0;
  return fmt::format("{:.1f} s", seconds);
}

std::string describe_lane(const RecordedLane& lane, std::uint64_t now_ns) {
  if (lane.operations.empty()) return "has done nothing yet";
  const RecordedOperation& last = lane.operations.back();
  const std::string what =
      fmt::format("{} of {} (number {})", last.name, format_size(last.bytes), last.number);
  if (last.ended) {
    const std::string how =
        last.result == Errc::kOk ? "" : fmt::format(", which failed: {}", errc_name(last.result));
    return fmt::format("is in no operation; the last was {}, begun {} ago{}", what,
                       age(last.begun_ns, now_ns), how);
  }
  if (lane.waits_for == kNoRank) return fmt::format("is in {}", what);
  return fmt::format("waits for rank {} since {} in {}", lane.waits_for,
                     age(lane.waits_since_ns, now_ns), what);
}

}  // namespace

std::string recording_directory() {
  const auto environment = [](const char* name) {
    const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return std::string(text == nullptr ? "" : text);
  };
  if (const auto own = environment("IMEX_RECORD_DIR"); !own.empty()) return own;
  if (os::user_id() == 0) return "/run/imex/communicators";
  if (const auto run = environment("XDG_RUNTIME_DIR"); run.starts_with('/'))
    return run + "/imex/communicators";
  return fmt::format("/tmp/imex-{}/communicators", os::user_id());
}

Result<Recording> read_recording(const std::string& path) {
  IMEX_TRY(const std::string bytes, os::read_file(path, kRecordingBytesMax));
  if (bytes.size() < kRecordingHeaderBytes)
    return damaged(
        path, fmt::format("{} bytes, a header of {} wanted", bytes.size(), kRecordingHeaderBytes));
  // A copy: the file's owner goes on writing.
  std::vector<OperationRecord> aligned((bytes.size() + sizeof(OperationRecord) - 1) /
                                       sizeof(OperationRecord));
  std::memcpy(static_cast<void*>(aligned.data()), bytes.data(), bytes.size());
  const auto& header = reinterpret_cast<const RecordingHeader&>(aligned.at(0));
  if (header.magic != kRecordingMagic) return damaged(path, "no flight recording");
  if (header.version != kRecordingVersion) {
    return fail(Errc::kVersionMismatch,
                fmt::format("flight recording '{}': version {} wanted, {} found", path,
                            kRecordingVersion, header.version));
  }
  if (header.lanes == 0 || header.lanes > kLanesMax || header.ranks == 0 ||
      header.ranks > kRanksMax || header.rank >= header.ranks ||
      bytes.size() != kRecordingHeaderBytes + header.lanes * kLaneRecordingBytes) {
    return damaged(path, fmt::format("{} lanes, rank {} of {}, {} bytes", header.lanes, header.rank,
                                     header.ranks, bytes.size()));
  }
  Recording recording{.path = path,
                      .group = header.group,
                      .generation = header.generation,
                      .rank = header.rank,
                      .ranks = header.ranks,
                      .pid = header.pid,
                      .alive = runs(header.pid, header.start_ticks),
                      .lanes = {}};
  const auto* const records = aligned.data() + kRecordingHeaderBytes / sizeof(OperationRecord);
  for (std::uint32_t lane = 0; lane != header.lanes; ++lane) {
    recording.lanes.push_back(lane_of(header.status[lane], records + lane * kRecordsPerLane));
  }
  return recording;
}

Result<std::vector<Recording>> read_recordings(const std::string& directory) {
  std::vector<Recording> all;
  if (const auto own = os::check_own_directory(directory); !own) {
    if (own.error().code == Errc::kNotFound) return all;
    return fail(own.error());
  }
  std::error_code error;
  std::filesystem::directory_iterator files(directory, error);
  if (error) {
    return fail(Errc::kPermissionDenied,
                fmt::format("flight recordings in '{}': {}", directory, error.message()));
  }
  for (const auto& file : files) {
    if (!file.is_regular_file(error)) continue;  // to open anything else may block
    // One may end, and another be written, just now.
    if (auto recording = read_recording(file.path().string())) all.push_back(std::move(*recording));
  }
  std::ranges::sort(
      all, {}, [](const Recording& each) { return std::tuple(each.group, each.rank, each.pid); });
  return all;
}

std::string describe(const std::vector<Recording>& group, std::uint64_t now_ns) {
  std::string text;
  for (const Recording& each : group) {
    for (std::size_t lane = 0; lane != each.lanes.size(); ++lane) {
      const std::string where = lane == 0 ? "" : fmt::format(" (lane {})", lane);
      text += fmt::format("rank {}{}, process {}{} {}\n", each.rank, where, each.pid,
                          each.alive ? "" : ", which is dead,",
                          describe_lane(each.lanes[lane], now_ns));
    }
  }
  return text;
}

}  // namespace imex::exchange
