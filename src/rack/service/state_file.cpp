#include "state_file.hpp"

#include <span>

#include <fmt/format.h>

#include "fault_json.hpp"
#include "os/file.hpp"

namespace imex::rack {

using nlohmann::json;

namespace {

constexpr unsigned kVersion = 1;
constexpr std::size_t kStateBytesMax = 16U << 20U;

json state_to_json(const DomainState& state) {
  json out = {{"format", "imex-rack-state"}, {"version", kVersion},
              {"topology", state.topology},  {"seed", state.seed},
              {"last_id", state.last_id},    {"tray_generations", state.tray_generations},
              {"config", state.config},      {"cages_down", state.cages_down}};
  out["partitions"] = json::array();
  for (const Partition& partition : state.partitions)
    out["partitions"].push_back(partition_to_json(partition));
  out["cliques"] = json::array();
  for (const auto& [uid, clique] : state.cliques) out["cliques"].push_back({uid, clique});
  out["faults"] = json::array();
  for (const Fault& fault : state.faults) {
    json entry = fault_to_json(fault, Time{0});
    entry.erase("id");
    entry["starts_ns"] = fault.starts.ns;
    if (fault.ends != kNever) entry["ends_ns"] = fault.ends.ns;
    out["faults"].push_back(std::move(entry));
  }
  return out;
}

Partition partition_from_json(const json& in) {
  Partition partition;
  partition.id = in.at("id").get<std::uint32_t>();
  partition.name = in.at("name").get<std::string>();
  partition.kind = static_cast<PartitionKind>(in.at("kind").get<unsigned>());
  partition.mode = static_cast<ResiliencyMode>(in.at("mode").get<unsigned>());
  partition.groups = in.at("groups").get<std::uint32_t>();
  for (const json& member : in.at("members")) {
    partition.members.push_back(
        {{{member.at("chassis").get<std::uint64_t>(), member.at("slot").get<std::uint64_t>(),
           member.at("host").get<std::uint64_t>()},
          member.at("module").get<std::uint32_t>()},
         member.at("uid").get<std::uint64_t>()});
  }
  return partition;
}

Result<Fault> saved_fault(json entry) {
  const Time starts{entry.at("starts_ns").get<std::int64_t>()};
  const Time ends =
      entry.contains("ends_ns") ? Time{entry.at("ends_ns").get<std::int64_t>()} : kNever;
  for (const char* key : {"starts_ns", "ends_ns", "after_ms", "for_ms"}) entry.erase(key);
  IMEX_TRY(Fault fault, fault_from_json(entry, Time{0}));
  fault.starts = starts;
  fault.ends = ends;
  return fault;
}

Result<DomainState> state_from_json(const json& in) {
  DomainState state;
  state.topology = in.at("topology").get<std::string>();
  state.seed = in.at("seed").get<std::uint64_t>();
  state.last_id = in.at("last_id").get<std::uint32_t>();
  state.tray_generations = in.at("tray_generations").get<std::vector<unsigned>>();
  state.config = in.at("config").get<std::map<std::string, ConfigFile>>();
  state.cages_down = in.at("cages_down").get<std::set<unsigned>>();
  for (const json& entry : in.at("partitions"))
    state.partitions.push_back(partition_from_json(entry));
  for (const json& entry : in.at("cliques")) {
    state.cliques[entry.at(0).get<std::uint64_t>()] = entry.at(1).get<std::uint32_t>();
  }
  for (const json& entry : in.at("faults")) {
    IMEX_TRY(Fault fault, saved_fault(entry));
    state.faults.push_back(std::move(fault));
  }
  return state;
}

}  // namespace

Result<DomainState> parse_state(std::string_view text, const std::string& path) try {
  const json in = json::parse(text);
  if (in.at("format") != "imex-rack-state" || in.at("version") != kVersion) {
    return fail(
        Errc::kDataLoss,
        fmt::format("{}: not a state of version {}: move it away to start anew", path, kVersion));
  }
  return state_from_json(in);
} catch (const json::exception& error) {
  return fail(Errc::kDataLoss,
              fmt::format("{}: {}: move it away to start anew", path, error.what()));
}

Result<std::optional<DomainState>> read_state_file(const std::string& path) {
  const auto text = os::read_file(path, kStateBytesMax);
  if (!text && text.error().code == Errc::kNotFound) return std::optional<DomainState>();
  if (!text) return fail(text.error());
  IMEX_TRY(DomainState state, parse_state(*text, path));
  return std::optional(std::move(state));
}

std::string state_text(const DomainState& state) { return state_to_json(state).dump() + "\n"; }

Result<void> write_state_file(const std::string& path, const std::string& text) {
  return os::replace_file(path, std::as_bytes(std::span(text)));
}

}  // namespace imex::rack
