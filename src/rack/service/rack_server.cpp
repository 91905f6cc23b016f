#include "rack/rack_server.hpp"

#include <fmt/format.h>

#include "control_answers.hpp"
#include "control_socket.hpp"
#include "nmxm_server.hpp"
#include "rack_state.hpp"

namespace imex::rack {

Result<void> RackServerOptions::validate() const {
  std::string problems;
  const auto problem = [&](std::string_view text) {
    problems.append(problems.empty() ? "" : "; ").append(text);
  };
  if (racks == 0 || racks > kRacksMax) problem(fmt::format("racks: want 1 to {}", kRacksMax));
  if (port != 0 && port + racks - 1 > 65535) problem("port: the last rack's lies over 65535");
  if (certificate.empty() != key.empty()) problem("certificate and key: want both or neither");
  if (!client_authority.empty() && certificate.empty())
    problem("client authority: needs a certificate and a key");
  if (personality.small_numbers && topology.gpus_per_tray > 4)
    problem("small numbers: at most 4 GPUs per tray");
  if (manager.certificate.empty() != manager.key.empty())
    problem("manager's certificate and key: want both or neither");
  if (forget && state_dir.empty()) problem("forget: needs a state directory");
  if (problems.empty()) return {};
  return fail(Errc::kInvalidArgument, problems);
}

struct RackServer::Impl {
  Impl(net::EventLoop& loop, RackServerOptions options, log::Logger& log)
      : rack(loop, std::move(options), log) {}
  ~Impl() { rack.set_manager(nullptr); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Rack rack;
  std::unique_ptr<NmxmManager> manager;
  std::unique_ptr<NmxmServer> manager_server;
  std::unique_ptr<ControlSocket> control;
};

namespace {

NmxmOptions manager_options(const ManagerOptions& from) {
  return {.ro_password = from.ro_password.reveal(),
          .rw_password = from.rw_password.reveal(),
          .pending = from.pending,
          .in_progress = from.in_progress,
          .lag = from.lag,
          .interop = from.interop};
}

}  // namespace

Result<std::unique_ptr<RackServer>> RackServer::start(net::EventLoop& loop,
                                                      RackServerOptions options, log::Logger& log) {
  IMEX_CHECK_OK(options.validate());
  auto impl = std::make_unique<Impl>(loop, std::move(options), log);
  IMEX_CHECK_OK(impl->rack.open());
  const ManagerOptions& manager = impl->rack.options().manager;
  if (!manager.listen.empty()) {
    std::vector<NmxmManager::Controller> controllers;
    for (const RackEntry& entry : impl->rack.entries()) {
      controllers.push_back({entry.host.get(), impl->rack.options().address, entry.primary_port});
    }
    impl->manager = std::make_unique<NmxmManager>(manager_options(manager), std::move(controllers));
    impl->rack.set_manager(impl->manager.get());
    IMEX_TRY(impl->manager_server, NmxmServer::start(*impl->manager, manager, log,
                                                     [&rack = impl->rack] { rack.wake(); }));
  }
  const std::string& path = impl->rack.options().control_path;
  if (!path.empty()) {
    IMEX_TRY(impl->control,
             ControlSocket::listen(loop, path, [&rack = impl->rack](std::string_view request) {
               return answer_control(rack, request);
             }));
  }
  return std::unique_ptr<RackServer>(new RackServer(std::move(impl)));
}

RackServer::RackServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RackServer::~RackServer() = default;

std::string RackServer::ready_line() const { return status_line(impl_->rack, manager_port()); }

std::uint16_t RackServer::manager_port() const noexcept {
  return impl_->manager_server ? impl_->manager_server->port() : std::uint16_t{0};
}

std::uint16_t RackServer::port(unsigned rack) const {
  return impl_->rack.entries().at(rack).primary_port;
}

}  // namespace imex::rack
