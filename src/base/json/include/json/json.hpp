/// JSON from outside, parsed within bounds, and what is often asked of it. Only sources include
/// <nlohmann/json.hpp>; this header forward-declares it.
///
///     IMEX_TRY(const nlohmann::json body, json::parse(request.body, "request body"));
///     IMEX_TRY(const std::string name, json::required_string(body, "Name"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"

namespace imex::json {

struct Limits {
  std::size_t bytes_max = 10U << 20U;
  std::size_t depth_max = 32;  ///< arrays and objects inside each other
  std::size_t values_max = 1U << 20U;
};

/// The one value that `text` holds. `what` names it in errors: kInvalidArgument (no JSON, no UTF-8,
/// a key that appears twice in one object: readers disagree on which one counts, a number beyond
/// double), kResourceExhausted (beyond `limits`).
[[nodiscard]] Result<nlohmann::json> parse(std::string_view text, std::string_view what,
                                           const Limits& limits = {});

/// Compact text. What is no UTF-8 becomes U+FFFD: never throws.
[[nodiscard]] std::string text_of(const nlohmann::json& value);

/// The field of an object; null if it is absent or JSON null, or `object` is none.
[[nodiscard]] const nlohmann::json* find(const nlohmann::json& object, std::string_view key);

// Fields of a known type. Errors: kInvalidArgument names the key, what was wanted and what is
// there.
[[nodiscard]] Result<std::string> required_string(const nlohmann::json& object,
                                                  std::string_view key);
[[nodiscard]] Result<std::uint64_t> required_u64(const nlohmann::json& object,
                                                 std::string_view key);
[[nodiscard]] Result<std::int64_t> required_i64(const nlohmann::json& object, std::string_view key);
[[nodiscard]] Result<bool> required_bool(const nlohmann::json& object, std::string_view key);
// Nothing if the field is absent or null; of another type it is an error all the same.
[[nodiscard]] Result<std::optional<std::string>> optional_string(const nlohmann::json& object,
                                                                 std::string_view key);
[[nodiscard]] Result<std::optional<std::uint64_t>> optional_u64(const nlohmann::json& object,
                                                                std::string_view key);
[[nodiscard]] Result<std::optional<std::int64_t>> optional_i64(const nlohmann::json& object,
                                                               std::string_view key);
[[nodiscard]] Result<std::optional<bool>> optional_bool(const nlohmann::json& object,
                                                        std::string_view key);

}  // namespace imex::json
