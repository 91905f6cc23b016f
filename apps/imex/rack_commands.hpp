/// The operator's commands for a simulated rack: `imex rack`. Errors of all: those of
/// locate_rack() and of rack::ControlClient.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "commands.hpp"
#include "rack/control_client.hpp"

namespace imex::cli {

struct RackOptions {
  std::string control;  ///< socket; empty: $IMEX_RACK_CONTROL, else the one of 'imex up'
  std::string domain;   ///< name or UUID; empty: all, or the only one
};

/// Without a domain and with several: one line for each. With one: its trays, GPUs and partitions.
[[nodiscard]] Result<void> rack_show(const Global& global, const RackOptions& options);

struct RackFaultOptions : RackOptions {
  rack::FaultRequest fault;
  std::string duration, after, delay;  ///< "30s"; empty: not given
  std::string what;                    ///< to clear: an id or a kind
  bool all = false;                    ///< to clear
  bool kinds = false;                  ///< list what there could be
};
[[nodiscard]] Result<void> rack_fault_add(const Global& global, const RackFaultOptions& options);
[[nodiscard]] Result<void> rack_fault_list(const Global& global, const RackFaultOptions& options);
[[nodiscard]] Result<void> rack_fault_clear(const Global& global, const RackFaultOptions& options);

}  // namespace imex::cli
