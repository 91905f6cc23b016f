#include "bench/memory.hpp"

namespace imex::bench {

const std::vector<Measurement>& memory_measurements() {
  static const std::vector<Measurement> kAll = {
      {"share", "export, import and map 2 MiB", true, measure_share},
      {"signal", "signal one way", false, measure_signal},
      {"loss", "loss of a peer", true, measure_loss},
      {"start", "start of daemons", true, measure_start},
      {"idle", "idle daemons", true, measure_idle},
      {"load", "256 processes and their handles", true, measure_load},
  };
  return kAll;
}

}  // namespace imex::bench
