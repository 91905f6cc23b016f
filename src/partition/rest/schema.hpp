/// JSON Schema from a shorthand that fits a line per object. Not for other rooms.
///
///     "id:uuid name:name description:string? vpcs:[@VpcSummary]- status:#VpcStatus"
///
/// name:type, a '?' after it: may be null; a '-': may be absent. Types: string, int, bool, object,
/// uuid, time, name (2 to 256 characters), text (up to 1024), labels, [type], @Component,
/// #Enumeration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace imex::partition {

struct Member {
  std::string_view name, type;
  bool nullable = false, optional = false, required = false;  ///< required: marked with '!'
};
[[nodiscard]] std::vector<Member> members_of(std::string_view shorthand);

/// Schema of one type; of "@X" and "#X" a reference to the component X.
[[nodiscard]] nlohmann::json schema_of(std::string_view type, bool nullable = false);

/// Every object and enumeration of the API by name.
[[nodiscard]] nlohmann::json component_schemas();

}  // namespace imex::partition
