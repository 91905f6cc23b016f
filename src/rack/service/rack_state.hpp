/// All domains of the process with the addresses they answer on. On the loop's thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "domain_host.hpp"
#include "nmxc_service.hpp"
#include "nmxm_manager.hpp"
#include "rack/rack_server.hpp"

namespace imex::rack {

/// One domain and its service on one or two addresses: the primary switch tray, and the one that a
/// failover moves to.
struct RackEntry {
  std::unique_ptr<DomainHost> host;
  std::unique_ptr<NmxcService> primary, standby;
  std::uint16_t primary_port = 0, standby_port = 0;  ///< kept when the service is down
  std::string manner;                                ///< TLS files and dialects it runs with
};

class Rack {
 public:
  Rack(net::EventLoop& loop, RackServerOptions options, log::Logger& log);
  ~Rack();
  Rack(const Rack&) = delete;
  Rack& operator=(const Rack&) = delete;
  [[nodiscard]] Result<void> open();

  [[nodiscard]] const RackServerOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::vector<RackEntry>& entries() noexcept { return entries_; }
  /// Nothing if there is none of that name.
  [[nodiscard]] RackEntry* find(const std::string& name);
  /// Beside the domains; must outlive its place here, or be taken away with nullptr. On the loop.
  void set_manager(NmxmManager* manager) noexcept { manager_ = manager; }
  [[nodiscard]] NmxmManager* manager() noexcept { return manager_; }
  /// Any thread: asks for a pulse soon.
  void wake();
  /// Lets time pass in all domains, and brings addresses in line with the faults that hold.
  void pulse();

 private:
  [[nodiscard]] Result<void> follow_faults(RackEntry& entry);

  net::EventLoop& loop_;
  const RackServerOptions options_;
  log::Logger& log_;
  Delays delays_;
  net::Timer timer_;
  std::vector<RackEntry> entries_;
  NmxmManager* manager_ = nullptr;
  /// Written by any thread that asks for a pulse, cleared by the loop when it begins one: saves
  /// posting twice, carries no data.
  std::atomic<bool> pulse_asked_{false};
};

}  // namespace imex::rack
