/// GPUs of a machine that has none: all in one partition, always attached.
#pragma once

#include "fabric/view.hpp"

namespace imex::fabric {

/// Seen as the default partition on GB200 and GB300.
inline constexpr std::uint32_t kDefaultCliqueId = 32'766;

/// `count` GPUs whose uids depend only on domain, node and index, so that a daemon that restarts
/// finds the same ones. The NVLink domain is derived from the IMEX domain: all its nodes share it,
/// other domains do not.
class SimulatedView final : public FabricView {
 public:
  SimulatedView(const Uuid& imex_domain, std::uint16_t node, std::uint32_t count);
  [[nodiscard]] std::vector<Gpu> gpus() const override { return gpus_; }
  /// Nothing ever changes here: the callback is not kept.
  void subscribe(std::function<void(const std::vector<Gpu>&)> on_change) override;

 private:
  std::vector<Gpu> gpus_;
};

}  // namespace imex::fabric
