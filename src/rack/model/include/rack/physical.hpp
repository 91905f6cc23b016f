/// What is plugged in and which links are up, and the health that follows from it, from the links
/// upward: link, GPU and chip, tray. Derived anew from the faults and the admin states, never
/// edited by a request.
#pragma once

#include <cstdint>
#include <vector>

#include "rack/codes.hpp"
#include "rack/fault.hpp"
#include "rack/topology.hpp"

namespace imex::rack {

struct GpuLinks {
  bool present = true;
  bool registering = false;     ///< listed, but not ready for partitions yet
  std::uint64_t down = 0;       ///< links that failed or were disabled; bit k is link k + 1
  std::uint64_t contained = 0;  ///< held back after an error: up, but carrying nothing
  friend bool operator==(const GpuLinks&, const GpuLinks&) = default;
};

struct Chip {
  bool listed = true;     ///< false with its tray
  bool lost = false;      ///< listed, but dead
  bool degraded = false;  ///< has lost links of its own
  [[nodiscard]] bool works() const noexcept { return listed && !lost; }
  friend bool operator==(const Chip&, const Chip&) = default;
};

struct Physical {
  std::vector<GpuLinks> gpus;
  std::vector<Chip> chips;
  std::vector<bool> switch_trays;  ///< listed
  std::vector<bool> trunks;        ///< up; numbered by chip, then link

  explicit Physical(const Topology& shape);
  void apply(const Topology& shape, const Fault& fault);

  [[nodiscard]] bool link_up(const Topology& shape, unsigned gpu, unsigned link) const;
  [[nodiscard]] bool trunk_up(const Topology& shape, unsigned trunk) const;
  /// `strict_links`: one lost link makes a GPU "no NVLink", as the vendor's guide has it; otherwise
  /// "degraded".
  [[nodiscard]] GpuHealth gpu_health(const Topology& shape, unsigned gpu, bool strict_links) const;
  [[nodiscard]] TrayHealth compute_tray_health(const Topology& shape, unsigned tray,
                                               bool strict_links) const;
  [[nodiscard]] SwitchHealth chip_health(const Topology& shape, unsigned chip) const;
  [[nodiscard]] SwitchHealth switch_tray_health(const Topology& shape, unsigned tray) const;
  /// Whether a GPU of the tray is there: a tray without any is not discovered.
  [[nodiscard]] bool tray_present(const Topology& shape, unsigned tray) const;
  [[nodiscard]] bool switches_complete() const;
  [[nodiscard]] bool trunks_complete(const Topology& shape) const;

  friend bool operator==(const Physical&, const Physical&) = default;
};

}  // namespace imex::rack
