#include "bench/control/control.hpp"

#include <array>

#include "measurements.hpp"

namespace imex::bench {

ControlPlaneOptions plane_options(const ControlOptions& options, std::uint32_t domains) {
  ControlPlaneOptions plane;
  plane.rack = options.rack;
  plane.controller = options.controller;
  plane.domains = domains;
  // A large fleet takes a while to be found on a small machine.
  plane.patience = std::chrono::seconds(60 + 2 * domains);
  return plane;
}

std::span<const ControlMeasurement> control_measurements() noexcept {
  static constexpr std::array kAll = {
      ControlMeasurement{"ready", "an instance becomes Ready", measure_ready},
      ControlMeasurement{"slow", "the same on a slow fabric manager", measure_ready_slow},
      ControlMeasurement{"batch", "18 trays of one domain become Ready", measure_batch},
      ControlMeasurement{"requests", "requests per second", measure_requests},
      ControlMeasurement{"fleet", "100 domains: a stolen GPU, idling, passes, memory",
                         measure_fleet}};
  return kAll;
}

}  // namespace imex::bench
