/// Inventory of the manager as JSON objects: nmx-m.md, section 3. Only for .cpp files.
#pragma once

#include <nlohmann/json.hpp>

#include "nmxm_copy.hpp"

namespace imex::rack {

/// One domain as it is registered.
struct Registered {
  const DomainCopy& copy;
  unsigned registration = 0;
  std::string since;           ///< RFC 3339
  bool small_numbers = false;  ///< ports as an existing client reads them: signed 32 bits
};

/// "chassis", "compute-nodes", "gpus", "switch-nodes", "switches" or "ports"; appends to `out`.
void list_objects(std::string_view collection, const Registered& domain, nlohmann::json& out);
[[nodiscard]] nlohmann::json metrics_and_kpis(const std::vector<const DomainCopy*>& domains);
[[nodiscard]] std::string metrics_text(const DomainCopy& domain);
[[nodiscard]] std::string_view partition_health_name(PartitionHealth health);
/// 2000-01-23T04:56:07.000+00:00
[[nodiscard]] std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace imex::rack
