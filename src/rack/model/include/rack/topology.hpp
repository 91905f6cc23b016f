/// The shape of one NVLink domain: how many trays, GPUs, chips and links, where they stand, and how
/// they are wired. Nothing here changes after the start.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/uuid.hpp"

namespace imex::rack {

struct Location {
  std::uint64_t chassis = 0, slot = 0, host = 0;
  friend auto operator<=>(const Location&, const Location&) = default;
};

/// One GPU by where it is.
struct GpuPlace {
  Location location;
  std::uint32_t module = 0;  ///< 1 to 4 within the host; not the NVML index
  friend auto operator<=>(const GpuPlace&, const GpuPlace&) = default;
};

/// A tray, compute or switch, of the domain.
struct TrayPlace {
  Location location;
  std::uint64_t index = 0;  ///< among the trays of its kind in the chassis
  unsigned chassis = 0;     ///< position of the chassis, from 0
};

inline constexpr unsigned kLinksPerGpuMax = 64;  ///< one bit each in a mask
inline constexpr unsigned kCagePorts = 4;        ///< trunk links through one cage

/// Counts per chassis unless said otherwise. Links: each GPU has one to each chip of its chassis;
/// chip k of one chassis is joined to chip k of the other by `trunks_per_chip` links.
struct Topology {
  std::string name;  ///< as the static configuration calls it
  unsigned chassis = 1;
  unsigned compute_trays = 18, gpus_per_tray = 4;
  unsigned switch_trays = 9, chips_per_tray = 2;
  unsigned ports_per_chip = 72;
  unsigned trunks_per_chip = 0;
  unsigned trays_below = 8;      ///< compute trays in slots below the switch trays
  unsigned tray_index_base = 0;  ///< 1 only in the interop profile

  [[nodiscard]] unsigned tray_count() const noexcept { return chassis * compute_trays; }
  [[nodiscard]] unsigned gpu_count() const noexcept { return tray_count() * gpus_per_tray; }
  [[nodiscard]] unsigned switch_tray_count() const noexcept { return chassis * switch_trays; }
  [[nodiscard]] unsigned chips_per_chassis() const noexcept {
    return switch_trays * chips_per_tray;
  }
  [[nodiscard]] unsigned chip_count() const noexcept { return chassis * chips_per_chassis(); }
  [[nodiscard]] unsigned links_per_gpu() const noexcept { return chips_per_chassis(); }
  [[nodiscard]] unsigned trunk_count() const noexcept {
    return chassis == 2 ? chips_per_chassis() * trunks_per_chip : 0;
  }
  [[nodiscard]] unsigned access_ports() const noexcept { return compute_trays * gpus_per_tray; }

  /// Trays of both kinds are numbered over the whole domain, chassis by chassis.
  [[nodiscard]] TrayPlace compute_tray(unsigned tray) const noexcept;
  [[nodiscard]] TrayPlace switch_tray(unsigned tray) const noexcept;
  [[nodiscard]] unsigned tray_of_gpu(unsigned gpu) const noexcept { return gpu / gpus_per_tray; }
  [[nodiscard]] std::uint32_t module_of_gpu(unsigned gpu) const noexcept {
    return gpu % gpus_per_tray + 1;
  }
  [[nodiscard]] GpuPlace place_of_gpu(unsigned gpu) const noexcept;
  /// Chip at the other end of a GPU's link, both from 0; chips are numbered over the domain.
  [[nodiscard]] unsigned chip_of_link(unsigned gpu, unsigned link) const noexcept;
  /// The chip's port for a GPU, from 1.
  [[nodiscard]] unsigned port_of_gpu(unsigned gpu) const noexcept;
  [[nodiscard]] unsigned tray_of_chip(unsigned chip) const noexcept {
    return chip / chips_per_tray;
  }
};

/// "nvl72", "nvl36", "nvl36x2", their full names ("gb200_nvl72r1_c2g4_topology"), or
/// "custom:trays=4,gpus=4,switches=2,chips=2". Errors: kInvalidArgument.
[[nodiscard]] Result<Topology> find_topology(std::string_view name);

/// What identifies the parts of one domain. Equal seed and index: equal identities.
class Identities {
 public:
  /// `small`: uids 1001, 1002, ... and the serial of the interop profile.
  Identities(std::uint64_t seed, unsigned index, bool small);

  [[nodiscard]] Uuid domain_uuid() const;
  [[nodiscard]] std::string chassis_serial(unsigned chassis) const;
  /// `generation` counts replacements of the tray: another one has other uids.
  [[nodiscard]] std::uint64_t gpu_uid(unsigned tray, std::uint32_t module,
                                      unsigned generation) const;
  [[nodiscard]] std::uint64_t tray_uid(unsigned tray, unsigned generation) const;
  [[nodiscard]] std::uint64_t switch_tray_uid(unsigned tray) const;
  [[nodiscard]] std::uint64_t chip_uid(unsigned chip) const;

 private:
  [[nodiscard]] std::uint64_t mix(unsigned kind, std::uint64_t number) const noexcept;
  std::uint64_t seed_;
  unsigned index_;
  bool small_;
};

}  // namespace imex::rack
