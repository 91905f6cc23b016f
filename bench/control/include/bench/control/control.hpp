/// The measurements of `imex bench control`: how fast a wish becomes so, how many requests a second
/// the API takes, what a large fleet costs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "bench/report.hpp"

namespace imex::bench {

struct ControlOptions {
  std::string rack, controller;  ///< paths of the programs
  double scale = 1.0;            ///< of all sample counts and of the fleet
  [[nodiscard]] std::size_t scaled(std::size_t count) const {
    const auto scaled = static_cast<std::size_t>(static_cast<double>(count) * scale);
    return scaled == 0 ? 1 : scaled;
  }
};

struct ControlRow {
  std::string operation;  ///< "instance_ready"
  std::string setting;    ///< "4 GPUs, 1 domain"
  Summary time{};
  std::vector<std::pair<std::string, double>> figures{};  ///< further ones, unit last
  std::vector<Mark> marks{};
  [[nodiscard]] bool met() const noexcept {
    for (const Mark& mark : marks) {
      if (!mark.met()) return false;
    }
    return true;
  }
};

struct ControlMeasurement {
  std::string_view name;   ///< for --only
  std::string_view title;  ///< for progress
  Result<std::vector<ControlRow>> (*run)(const ControlOptions&);
};
[[nodiscard]] std::span<const ControlMeasurement> control_measurements() noexcept;

}  // namespace imex::bench
