/// Operations on text that templates use, as Python does them. Case is changed in ASCII only, as
/// roles and names of tools are.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "value.hpp"

namespace imex::inference {

[[nodiscard]] std::vector<std::string_view> characters(std::string_view text);
/// Takes characters of `chars` (bytes; empty: white space) from the ends.
[[nodiscard]] std::string strip(std::string_view text, std::string_view chars, bool left,
                                bool right);
[[nodiscard]] std::string upper(std::string text);
[[nodiscard]] std::string lower(std::string text);
[[nodiscard]] std::string capitalize(std::string text);
/// All lines but empty ones, the first only if `first`.
[[nodiscard]] std::string indent(std::string_view text, std::size_t width, bool first);
[[nodiscard]] std::optional<std::int64_t> parse_integer_text(std::string_view text);
/// strftime in the C locale, UTC; the directives %a %A %b %B %d %H %I %j %m %M %p %S %y %Y %%.
/// Errors: kInvalidArgument.
[[nodiscard]] Result<Value> format_time(std::string_view format,
                                        std::chrono::system_clock::time_point now);

}  // namespace imex::inference
