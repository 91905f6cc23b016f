/// config.json and its like, which hold numbers that simdjson refuses (10^30 tokens and the like).
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace imex::inference {

/// Errors: kDataLoss (no JSON object; nested deeper than 64; a key that appears twice in one
/// object).
[[nodiscard]] Result<nlohmann::json> parse_json_object(std::string_view text,
                                                       std::string_view file);

}  // namespace imex::inference
