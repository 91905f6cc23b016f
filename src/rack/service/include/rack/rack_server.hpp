/// Simulated NVLink racks as a service: one fabric controller (NMX-C) per domain over gRPC, files
/// that tell simulated nodes what their GPUs see, a control socket for faults, and state that
/// survives a restart.
///
/// Thread rule: everything here on the loop's thread. gRPC answers on threads of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "log/log.hpp"
#include "net/event_loop.hpp"
#include "rack/personality.hpp"
#include "rack/topology.hpp"

namespace imex::rack {

/// The manager over all domains (NMX-M, REST).
struct ManagerOptions {
  std::string listen;            ///< "ADDRESS:PORT"; empty: no manager
  std::string certificate, key;  ///< PEM files; both or neither
  log::Secret ro_password{std::string("ro-password")}, rw_password{std::string("rw-password")};
  /// How long an operation is pending, and in progress; how old inventory may be.
  Nanos pending{std::chrono::milliseconds(50)}, in_progress{std::chrono::milliseconds(50)}, lag{0};
  bool interop = false;  ///< bends to an existing client
};

struct RackServerOptions {
  unsigned racks = 1;  ///< NVLink domains
  Topology topology;
  std::uint64_t seed = 1;
  Personality personality;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;        ///< of the first domain, the others follow; 0: any
  std::string certificate, key;  ///< PEM files; both or neither
  std::string client_authority;  ///< asks clients for a certificate (mutual TLS)
  std::string state_dir;         ///< empty: state is forgotten when the process ends
  bool forget = false;           ///< begins without what was saved
  std::string nodes_dir;         ///< for tray files; empty: none
  std::string control_path;      ///< Unix socket; empty: none
  ManagerOptions manager{};

  /// All problems at once. Errors: kInvalidArgument.
  [[nodiscard]] Result<void> validate() const;
};

inline constexpr unsigned kRacksMax = 1024;

class RackServer {
 public:
  /// Listens on everything. Errors: those of sockets and files; state of another rack.
  [[nodiscard]] static Result<std::unique_ptr<RackServer>> start(net::EventLoop& loop,
                                                                 RackServerOptions options,
                                                                 log::Logger& log);
  ~RackServer();
  RackServer(const RackServer&) = delete;
  RackServer& operator=(const RackServer&) = delete;

  /// One line of JSON: addresses, ports and identities (docs/formats/rack-control.md).
  [[nodiscard]] std::string ready_line() const;
  [[nodiscard]] std::uint16_t port(unsigned rack) const;
  /// Of the manager; 0: there is none.
  [[nodiscard]] std::uint16_t manager_port() const noexcept;

 private:
  struct Impl;
  explicit RackServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::rack
