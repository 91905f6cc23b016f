/// Names of partitions say whose they are, so that ownership can be read back from the fabric.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/uuid.hpp"

namespace imex::partition::reconciler {

/// "<mark>.<logical partition>", e.g. "imex-5f0c81d2.1b4e28ba-2fa1-4d2e-883f-0016d3cca427". One
/// logical partition has one name per domain, so that making it twice is refused by the manager.
[[nodiscard]] std::string partition_name(std::string_view mark, const Uuid& logical_partition);

/// Inverse of partition_name; nullopt: another mark, or no mark of ours at all.
[[nodiscard]] std::optional<Uuid> owner_of(std::string_view mark, std::string_view name);

}  // namespace imex::partition::reconciler
