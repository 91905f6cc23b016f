/// Faults and states as JSON: on the control socket and in state files. Only for .cpp files.
#pragma once

#include <nlohmann/json.hpp>

#include "rack/domain.hpp"

namespace imex::rack {

/// Times relative to `now`, in milliseconds.
[[nodiscard]] nlohmann::json fault_to_json(const Fault& fault, Time now);
/// Errors: kInvalidArgument names the key.
[[nodiscard]] Result<Fault> fault_from_json(const nlohmann::json& json, Time now);
[[nodiscard]] nlohmann::json partition_to_json(const Partition& partition);

/// A whole number of JSON within bounds; nothing if the key is absent. Errors: kInvalidArgument.
[[nodiscard]] Result<std::optional<std::uint64_t>> json_number(const nlohmann::json& object,
                                                               const char* key, std::uint64_t max);
/// Text; empty if the key is absent. Errors: kInvalidArgument.
[[nodiscard]] Result<std::string> json_text(const nlohmann::json& object, const char* key,
                                            std::size_t bytes_max = 1024);

}  // namespace imex::rack
