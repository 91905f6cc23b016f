#include "fault_json.hpp"

#include <limits>
#include <set>

#include <fmt/format.h>

namespace imex::rack {

using nlohmann::json;

namespace {

constexpr std::uint64_t kMillisMax = 1000ULL * 3600 * 24 * 365;  // a year

std::int64_t to_ms(Nanos time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

Result<void> read_scope(const json& object, Fault& fault) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  const auto take = [&](const char* key, auto& field) -> Result<void> {
    IMEX_TRY(const auto value, json_number(object, key, kMax));
    if (value) field = static_cast<std::uint32_t>(*value);
    return {};
  };
  IMEX_CHECK_OK(take("tray", fault.tray));
  IMEX_CHECK_OK(take("switch_tray", fault.switch_tray));
  IMEX_CHECK_OK(take("chip", fault.chip));
  IMEX_CHECK_OK(take("trunk", fault.trunk));
  IMEX_CHECK_OK(take("gpu", fault.gpu));
  IMEX_CHECK_OK(take("link", fault.link));
  IMEX_CHECK_OK(take("partition", fault.partition));
  IMEX_CHECK_OK(take("count", fault.count));
  return take("number", fault.number);
}

Result<void> read_times(const json& object, Time now, Fault& fault) {
  IMEX_TRY(const auto after, json_number(object, "after_ms", kMillisMax));
  IMEX_TRY(const auto during, json_number(object, "for_ms", kMillisMax));
  IMEX_TRY(const auto delay, json_number(object, "delay_ms", kMillisMax));
  fault.starts = now + std::chrono::milliseconds(after.value_or(0));
  if (during) fault.ends = fault.starts + std::chrono::milliseconds(*during);
  fault.delay = std::chrono::milliseconds(delay.value_or(0));
  return {};
}

}  // namespace

Result<std::optional<std::uint64_t>> json_number(const json& object, const char* key,
                                                 std::uint64_t max) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::optional<std::uint64_t>();
  if (!it->is_number_unsigned() || it->get<std::uint64_t>() > max) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}: want a whole number from 0 to {}", key, max));
  }
  return std::optional(it->get<std::uint64_t>());
}

Result<std::string> json_text(const json& object, const char* key, std::size_t bytes_max) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::string();
  if (!it->is_string() || it->get_ref<const std::string&>().size() > bytes_max) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}: want text of at most {} bytes", key, bytes_max));
  }
  return it->get<std::string>();
}

json fault_to_json(const Fault& fault, Time now) {
  json out = {{"id", fault.id}, {"kind", facts_of(fault.kind).name}};
  const auto put = [&](const char* key, const auto& field) {
    if (field) out[key] = *field;
  };
  put("tray", fault.tray);
  put("switch_tray", fault.switch_tray);
  put("chip", fault.chip);
  put("trunk", fault.trunk);
  put("gpu", fault.gpu);
  put("link", fault.link);
  put("partition", fault.partition);
  put("count", fault.count);
  put("number", fault.number);
  if (!fault.method.empty()) out["method"] = fault.method;
  if (!fault.text.empty()) out["text"] = fault.text;
  if (fault.probability < 1) out["probability"] = fault.probability;
  if (fault.starts > now) out["after_ms"] = to_ms(fault.starts - now);
  if (fault.ends != kNever) out["for_ms"] = to_ms(fault.ends - std::max(now, fault.starts));
  if (fault.delay.count() != 0) out["delay_ms"] = to_ms(fault.delay);
  return out;
}

Result<Fault> fault_from_json(const json& object, Time now) {
  static const std::set<std::string> kKnown = {
      "op",    "domain",      "kind",     "id",        "tray",    "switch_tray", "chip",
      "trunk", "gpu",         "link",     "partition", "count",   "number",      "method",
      "text",  "probability", "after_ms", "for_ms",    "delay_ms"};
  for (const auto& [key, value] : object.items()) {
    if (!kKnown.contains(key))
      return fail(Errc::kInvalidArgument, fmt::format("'{}': no such key of a fault", key));
  }
  Fault fault;
  IMEX_TRY(const std::string kind, json_text(object, "kind"));
  IMEX_TRY(fault.kind, find_fault(kind));
  IMEX_CHECK_OK(read_scope(object, fault));
  IMEX_CHECK_OK(read_times(object, now, fault));
  IMEX_TRY(fault.method, json_text(object, "method"));
  IMEX_TRY(fault.text, json_text(object, "text"));
  if (const auto it = object.find("probability"); it != object.end()) {
    if (!it->is_number())
      return fail(Errc::kInvalidArgument, "probability: want a number from 0 to 1");
    fault.probability = it->get<double>();
  }
  return fault;
}

json partition_to_json(const Partition& partition) {
  json members = json::array();
  for (const Member& member : partition.members) {
    const Location& at = member.place.location;
    members.push_back({{"uid", member.uid},
                       {"chassis", at.chassis},
                       {"slot", at.slot},
                       {"host", at.host},
                       {"module", member.place.module}});
  }
  return {{"id", partition.id},
          {"name", partition.name},
          {"kind", static_cast<unsigned>(partition.kind)},
          {"mode", static_cast<unsigned>(partition.mode)},
          {"groups", partition.groups},
          {"members", std::move(members)}};
}

}  // namespace imex::rack
