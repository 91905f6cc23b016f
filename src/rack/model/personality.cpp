#include "rack/personality.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace imex::rack {

namespace {

struct Switch {
  std::string_view key, wanted;
  /// False: no such value.
  bool (*set)(Personality&, std::string_view);
};

bool set_flag(bool& flag, std::string_view value, std::string_view off, std::string_view on) {
  if (value != off && value != on) return false;
  flag = value == on;
  return true;
}

bool set_delay(Nanos& delay, std::string_view value) {
  unsigned ms = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), ms);
  if (error != std::errc() || end != value.data() + value.size()) return false;
  delay = std::chrono::milliseconds(ms);
  return true;
}

constexpr std::array kSwitches = {
    Switch{"dialect", "current or both",
           [](Personality& p, std::string_view v) {
             return set_flag(p.draft_too, v, "current", "both");
           }},
    Switch{"session", "gateway, connection or off",
           [](Personality& p, std::string_view v) {
             if (v == "gateway") p.session = SessionReach::kGateway;
             if (v == "connection") p.session = SessionReach::kConnection;
             if (v == "off") p.session = SessionReach::kOff;
             return v == "gateway" || v == "connection" || v == "off";
           }},
    Switch{
        "codes", "2.20 or 1.3",
        [](Personality& p, std::string_view v) { return set_flag(p.codes_1_3, v, "2.20", "1.3"); }},
    Switch{"errors", "lenient or strict",
           [](Personality& p, std::string_view v) {
             return set_flag(p.strict, v, "lenient", "strict");
           }},
    Switch{"attr-0", "refused or all",
           [](Personality& p, std::string_view v) {
             return set_flag(p.lenient_attr, v, "refused", "all");
           }},
    Switch{"unknown-gpu", "resource-bad or badparam",
           [](Personality& p, std::string_view v) {
             if (v == "resource-bad") p.unknown_gpu = ReturnCode::kResourceBad;
             if (v == "badparam") p.unknown_gpu = ReturnCode::kBadParam;
             return v == "resource-bad" || v == "badparam";
           }},
    Switch{"default-partition", "present or absent",
           [](Personality& p, std::string_view v) {
             return set_flag(p.default_partition, v, "absent", "present");
           }},
    Switch{"default-name", "a name with 'Default' in it",
           [](Personality& p, std::string_view v) {
             p.default_name = v;
             return v.find("Default") != std::string_view::npos && v.size() <= 255;
           }},
    Switch{"clique-change", "on-reset or immediate",
           [](Personality& p, std::string_view v) {
             if (v == "on-reset") p.clique_change = CliqueChange::kOnReset;
             if (v == "immediate") p.clique_change = CliqueChange::kImmediate;
             return v == "on-reset" || v == "immediate";
           }},
    Switch{"ids", "upward or reuse-lowest",
           [](Personality& p, std::string_view v) {
             if (v == "upward") p.ids = IdAllocation::kUpward;
             if (v == "reuse-lowest") p.ids = IdAllocation::kReuseLowest;
             return v == "upward" || v == "reuse-lowest";
           }},
    Switch{"subscribe", "served or unimplemented",
           [](Personality& p, std::string_view v) {
             return set_flag(p.subscribe, v, "unimplemented", "served");
           }},
    Switch{"lost-link", "no-nvlink or degraded",
           [](Personality& p, std::string_view v) {
             return set_flag(p.strict_links, v, "degraded", "no-nvlink");
           }},
    Switch{"numbers", "large or small",
           [](Personality& p, std::string_view v) {
             return set_flag(p.small_numbers, v, "large", "small");
           }},
    Switch{"health-mask", "0x1aa or 0x0aa",
           [](Personality& p, std::string_view v) {
             return set_flag(p.nvml_last_field, v, "0x0aa", "0x1aa");
           }},
    Switch{"still-listed-ms", "a number",
           [](Personality& p, std::string_view v) { return set_delay(p.still_listed, v); }},
    Switch{"still-bound-ms", "a number",
           [](Personality& p, std::string_view v) { return set_delay(p.still_bound, v); }},
    Switch{"start-ms", "a number",
           [](Personality& p, std::string_view v) { return set_delay(p.start_delay, v); }},
};

}  // namespace

Result<Personality> find_personality(std::string_view name) {
  Personality found;
  found.name = name;
  if (name == "2.20") return found;
  if (name == "1.3") {
    found.codes_1_3 = true;
    found.version = "1.3.0";
    return found;
  }
  if (name == "strict") {
    found.strict = true;
    found.session = SessionReach::kConnection;
    return found;
  }
  if (name == "draft") {
    found.draft_too = true;
    return found;
  }
  if (name == "interop") {  // what a public controller's own tests expect (nmx-c.md, section 9)
    found.session = SessionReach::kOff;
    found.small_numbers = true;
    return found;
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("personality '{}': want 2.20, 1.3, strict, draft or interop", name));
}

Result<void> set_personality(Personality& personality, std::string_view setting) {
  const auto equals = setting.find('=');
  const std::string_view key = setting.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : setting.substr(equals + 1);
  std::string known;
  for (const Switch& entry : kSwitches) {
    known.append(known.empty() ? "" : ", ").append(entry.key);
    if (entry.key != key) continue;
    if (entry.set(personality, value)) return {};
    return fail(Errc::kInvalidArgument, fmt::format("{}: '{}': want {}", key, value, entry.wanted));
  }
  return fail(Errc::kInvalidArgument, fmt::format("no switch '{}': there are {}", key, known));
}

}  // namespace imex::rack
