#include "json_object.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace imex::inference {

Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file) {
  using Json = nlohmann::json;
  constexpr int kDepthMax = 64;
  std::vector<std::set<std::string>> open;  // the keys so far of each object around the place
  std::optional<std::string> repeated;
  bool deep = false;
  const auto note = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    deep = deep || depth > kDepthMax;
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !repeated) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second) repeated = key;
    }
    return !deep;
  };
  Json json = Json::parse(text, note, false);
  if (deep) return fail(Errc::kDataLoss, fmt::format("{} is nested too deep", file));
  if (!json.is_object()) {
    return fail(Errc::kDataLoss, fmt::format("{} is not a JSON object", file));
  }
  if (!repeated) return json;
  return fail(Errc::kDataLoss, fmt::format("{}: key '{}' appears twice", file, *repeated),
              "keep the one that is meant");
}

}  // namespace imex::inference
