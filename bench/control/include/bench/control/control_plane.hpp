/// A rack and a controller of one's own, in a temporary directory: for benchmarks and end-to-end
/// tests. Ports are the kernel's choice; nothing survives the object.
///
///     IMEX_TRY(auto plane, ControlPlane::start({.rack = rack, .controller = controller}));
///     IMEX_TRY(auto client, plane.tenant());
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "log/secret.hpp"
#include "os/process.hpp"
#include "partition/client/client.hpp"
#include "rack/control_client.hpp"

namespace imex::bench {

struct ControlPlaneOptions {
  std::string rack, controller;  ///< paths of the programs
  std::uint32_t domains = 1;
  std::string topology = "nvl72";
  std::string interval = "60s";  ///< of the controller's passes
  std::chrono::seconds patience{60};
};

/// Start from the main thread: children die with the thread that made them.
class ControlPlane {
 public:
  /// Starts both, waits until every machine was found, and makes an instance type of all of them
  /// and an allocation, as an operator would. Errors: kNotFound (programs), kDeadlineExceeded,
  /// those of the API; what the programs said is in the message.
  [[nodiscard]] static Result<ControlPlane> start(ControlPlaneOptions options);
  ControlPlane(ControlPlane&&) noexcept;
  ControlPlane& operator=(ControlPlane&&) noexcept;
  ~ControlPlane();

  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::string& token_file() const noexcept { return token_file_; }
  [[nodiscard]] const log::Secret& token() const noexcept { return token_; }
  [[nodiscard]] std::string rack_control() const { return directory_ + "/rack.sock"; }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
  [[nodiscard]] std::int32_t controller_pid() const;
  [[nodiscard]] std::uint32_t machines() const noexcept { return machines_; }

  /// What an instance needs beside name and partition.
  [[nodiscard]] const partition::SiteId& site() const noexcept { return site_; }
  [[nodiscard]] const partition::InstanceTypeId& type() const noexcept { return type_; }

  [[nodiscard]] Result<std::unique_ptr<partition::client::Client>> tenant() const;
  [[nodiscard]] Result<rack::ControlClient> rack() const;

  [[nodiscard]] bool controller_runs();
  /// Starts a controller that has ended again, on the same store and port.
  [[nodiscard]] Result<void> revive_controller();
  /// Ends the controller with a signal and starts it again on the same store and port.
  [[nodiscard]] Result<void> restart_controller(int signal_number, const std::string& interval);

  static constexpr const char* kOrg = "imex";

 private:
  ControlPlane() = default;
  [[nodiscard]] Result<void> start_rack();
  [[nodiscard]] Result<void> make_token();
  [[nodiscard]] Result<void> start_controller(const std::string& interval);
  [[nodiscard]] Result<void> provision();
  void end() noexcept;

  ControlPlaneOptions options_;
  std::string directory_, url_, token_file_;
  log::Secret token_;
  std::vector<std::string> endpoints_;
  std::uint16_t port_ = 0;  ///< of the controller's API; 0: not known yet
  std::uint32_t machines_ = 0;
  partition::SiteId site_;
  partition::InstanceTypeId type_;
  std::optional<os::Child> rack_, controller_;
};

}  // namespace imex::bench
