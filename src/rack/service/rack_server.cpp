#include "rack/rack_server.hpp"

#include <fmt/format.h>

#include "control_answers.hpp"
#include "control_socket.hpp"
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
  if (forget && state_dir.empty()) problem("forget: needs a state directory");
  if (problems.empty()) return {};
  return fail(Errc::kInvalidArgument, problems);
}

struct RackServer::Impl {
  Impl(net::EventLoop& loop, RackServerOptions options, log::Logger& log)
      : rack(loop, std::move(options), log) {}
  Rack rack;
  std::unique_ptr<ControlSocket> control;
};

Result<std::unique_ptr<RackServer>> RackServer::start(net::EventLoop& loop,
                                                      RackServerOptions options, log::Logger& log) {
  IMEX_CHECK_OK(options.validate());
  auto impl = std::make_unique<Impl>(loop, std::move(options), log);
  IMEX_CHECK_OK(impl->rack.open());
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

std::string RackServer::ready_line() const { return status_line(impl_->rack); }

std::uint16_t RackServer::port(unsigned rack) const {
  return impl_->rack.entries().at(rack).primary_port;
}

}  // namespace imex::rack
