#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/units.hpp"
#include "commands.hpp"
#include "exchange/recording.hpp"

namespace imex::cli {
namespace {

double seconds_between(std::uint64_t then_ns, std::uint64_t now_ns) {
  return now_ns > then_ns ? static_cast<double>(now_ns - then_ns) / 1e9 : 0;
}

Json operation_json(const exchange::RecordedOperation& operation, std::uint64_t now_ns) {
  Json json{{"number", operation.number},
            {"operation", operation.name},
            {"bytes", operation.bytes},
            {"algorithm", algorithm_name(operation.algorithm)},
            {"begun_seconds_ago", seconds_between(operation.begun_ns, now_ns)},
            {"state", operation.ended ? errc_name(operation.result) : "running"}};
  if (operation.root != kNoRank) json["root"] = operation.root;
  return json;
}

Json lane_json(const exchange::Recording& rank, std::size_t number, std::size_t operations,
               std::uint64_t now_ns) {
  const exchange::RecordedLane& lane = rank.lanes[number];
  Json json{{"group", fmt::format("{:016x}", rank.group)},
            {"generation", rank.generation},
            {"rank", rank.rank},
            {"ranks", rank.ranks},
            {"pid", rank.pid},
            {"alive", rank.alive},
            {"lane", number},
            {"begun", lane.begun},
            {"ended", lane.ended},
            {"waits_for", nullptr},
            {"waits_seconds", nullptr},
            {"operations", Json::array()}};
  if (lane.waits_for != kNoRank) {
    json["waits_for"] = lane.waits_for;
    json["waits_seconds"] = seconds_between(lane.waits_since_ns, now_ns);
  }
  const std::size_t known = lane.operations.size();
  for (std::size_t i = known - std::min(known, operations); i != known; ++i) {
    json["operations"].push_back(operation_json(lane.operations[i], now_ns));
  }
  return json;
}

/// "all_reduce of 8 B, running" of the newest operation.
std::string last_of(const exchange::RecordedLane& lane) {
  if (lane.operations.empty()) return "";
  const auto& last = lane.operations.back();
  return fmt::format("{} of {}, {}", last.name, format_size(last.bytes),
                     last.ended ? errc_name(last.result) : "running");
}

}  // namespace

Result<void> communicator_status(const Global& global, std::size_t operations) {
  const std::string folder = exchange::recording_directory();
  IMEX_TRY(const auto ranks, exchange::read_recordings(folder));
  if (ranks.empty() && !global.quiet) {
    fmt::print(stderr, "no rank of this user runs or has crashed: nothing in {}\n", folder);
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  Table table({"GROUP", "GEN", "RANK", "PID", "PROCESS", "LANE", "OPERATIONS", "WAITS_FOR",
               "WAITS_S", "LAST"});
  std::vector<Json> rows;
  for (const auto& rank : ranks) {
    for (std::size_t number = 0; number != rank.lanes.size(); ++number) {
      const auto& lane = rank.lanes[number];
      const bool waits = lane.waits_for != kNoRank;
      table.add({fmt::format("{:016x}", rank.group), std::to_string(rank.generation),
                 fmt::format("{}/{}", rank.rank, rank.ranks), std::to_string(rank.pid),
                 rank.alive ? "runs" : "dead", std::to_string(number), std::to_string(lane.ended),
                 waits ? fmt::format("rank {}", lane.waits_for) : "-",
                 waits ? fmt::format("{:.1f}", seconds_between(lane.waits_since_ns, now_ns)) : "-",
                 last_of(lane)});
      rows.push_back(lane_json(rank, number, operations, now_ns));
    }
  }
  return print(render_list(global.format, "lanes", rows, table));
}

}  // namespace imex::cli
