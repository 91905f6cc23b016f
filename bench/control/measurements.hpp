/// The measurements, one function each; control.cpp lists them.
#pragma once

#include "bench/control/control.hpp"
#include "bench/control/control_plane.hpp"

namespace imex::bench {

[[nodiscard]] ControlPlaneOptions plane_options(const ControlOptions& options,
                                                std::uint32_t domains);

// ready.cpp
[[nodiscard]] Result<std::vector<ControlRow>> measure_ready(const ControlOptions& options);
[[nodiscard]] Result<std::vector<ControlRow>> measure_ready_slow(const ControlOptions& options);
[[nodiscard]] Result<std::vector<ControlRow>> measure_batch(const ControlOptions& options);
// fleet.cpp
[[nodiscard]] Result<std::vector<ControlRow>> measure_fleet(const ControlOptions& options);
// requests.cpp
[[nodiscard]] Result<std::vector<ControlRow>> measure_requests(const ControlOptions& options);

}  // namespace imex::bench
