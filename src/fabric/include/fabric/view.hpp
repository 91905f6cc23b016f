/// What the node knows of its GPUs: which NVLink domain and which partition each one is in now.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/uuid.hpp"

namespace imex::fabric {

/// A GPU's place in the fabric as its driver (or the simulated rack) reports it. Two GPUs may share
/// memory when domain_uuid and clique_id are both equal now. A clique id alone is never a key: it
/// is unique only inside its NVLink domain.
struct Partition {
  Uuid domain_uuid;
  std::uint32_t clique_id = 0;
  friend auto operator<=>(const Partition&, const Partition&) = default;
  /// "<clusterUUID>.<cliqueId>"
  [[nodiscard]] std::string to_string() const;
};

struct Gpu {
  std::uint32_t index = 0;
  std::uint64_t uid = 0;
  Partition partition;
  /// False while the GPU is not (or no longer) attached to the fabric: nothing may be shared.
  bool attached = true;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Source of the node's GPUs. Implementations: file, simulated, rack, NVML.
/// Thread rule: all calls and callbacks on one thread, the daemon's event loop.
class FabricView {
 public:
  virtual ~FabricView() = default;
  [[nodiscard]] virtual std::vector<Gpu> gpus() const = 0;
  /// Called after each change, with the new list. One subscriber.
  virtual void subscribe(std::function<void(const std::vector<Gpu>&)> on_change) = 0;
};

}  // namespace imex::fabric
