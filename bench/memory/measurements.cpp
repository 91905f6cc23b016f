#include "bench/memory.hpp"

namespace imex::bench {

const std::vector<Measurement>& memory_measurements() {
  static const std::vector<Measurement> kAll = {
      {"share", "export, import and map 2 MiB", measure_share},
      {"signal", "signal one way", measure_signal},
      {"loss", "loss of a peer", measure_loss},
      {"start", "start of daemons", measure_start},
      {"idle", "idle daemons", measure_idle},
      {"load", "256 processes, 10,000 handles", measure_load},
  };
  return kAll;
}

}  // namespace imex::bench
