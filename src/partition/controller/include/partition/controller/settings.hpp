/// What decides how the controller works; the section [nvlink_config] of its configuration file.
#pragma once

#include <chrono>
#include <string>

#include "base/time.hpp"
#include "partition/reconciler/desired.hpp"

namespace imex::partition {

struct ControllerSettings {
  /// False: no fabric manager is spoken to.
  bool enabled = true;
  /// Period of passes when nothing happens. An observation older than three of them is unknown.
  Nanos interval = std::chrono::seconds(60);
  /// For each call that changes something. Shorter than the 5 s after which another replica may
  /// lead, so that a call has ended before somebody else acts.
  Nanos operation_timeout = std::chrono::seconds(4);
  /// For each observation.
  Nanos observation_timeout = std::chrono::seconds(30);
  /// How long after its call an operation without an answer may still take effect.
  Nanos doubt_window = std::chrono::seconds(120);
  /// Begins the names of partitions on the fabric.
  std::string mark = "imex";
  reconciler::DefaultPartitionPolicy default_partition =
      reconciler::DefaultPartitionPolicy::kDissolve;
  reconciler::StolenGpuPolicy stolen_gpus = reconciler::StolenGpuPolicy::kTakeBack;
};

}  // namespace imex::partition
