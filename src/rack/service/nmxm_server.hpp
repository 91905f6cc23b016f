/// The manager behind an HTTP server.
#pragma once

#include <functional>
#include <memory>

#include "log/log.hpp"
#include "nmxm_manager.hpp"
#include "rack/rack_server.hpp"

namespace imex::rack {

class NmxmServer {
 public:
  /// `wake` is called, on any thread, when the manager wants a pulse. Errors: those of the address
  /// and of the certificate files.
  [[nodiscard]] static Result<std::unique_ptr<NmxmServer>> start(NmxmManager& manager,
                                                                 const ManagerOptions& options,
                                                                 log::Logger& log,
                                                                 std::function<void()> wake);
  ~NmxmServer();
  NmxmServer(const NmxmServer&) = delete;
  NmxmServer& operator=(const NmxmServer&) = delete;
  [[nodiscard]] std::uint16_t port() const noexcept;

 private:
  struct Impl;
  explicit NmxmServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::rack
