// imex-rack: simulated NVLink racks with their fabric controllers.
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/version.hpp"
#include "net/event_loop.hpp"
#include "os/file.hpp"
#include "rack/rack_server.hpp"

namespace {

using imex::rack::RackServer;
using imex::rack::RackServerOptions;

constexpr int kExitOk = 0, kExitUsage = 64, kExitFailed = 70;

constexpr const char* kFooter =
    "Example:\n"
    "  imex-rack --racks 2 --topology nvl72 --listen 127.0.0.1:9370 --control /tmp/rack.sock\n"
    "  imex-rack --topology nvl36 --personality interop --listen 127.0.0.1:9601\n"
    "\n"
    "When it serves, one line of JSON on standard output (or --ready-fd) tells addresses and "
    "ports.\n"
    "Signals: TERM and INT stop. Exit status: 0 clean stop, 64 usage, 70 failed.";

struct CommandLine {
  RackServerOptions rack;
  std::string topology = "nvl72", personality = "2.20", listen = "127.0.0.1:0", log_level = "info";
  std::vector<std::string> switches;
  std::string ro_password_file, rw_password_file;
  unsigned pending_ms = 50, progress_ms = 50, lag_ms = 0;
  int ready_fd = 1;
};

void describe_manager(CLI::App& app, CommandLine& line) {
  imex::rack::ManagerOptions& manager = line.rack.manager;
  app.add_option("--nmxm-listen", manager.listen,
                 "ADDRESS:PORT of the manager over all racks (NMX-M, REST)");
  app.add_option("--nmxm-certificate", manager.certificate, "PEM file: serve over HTTPS");
  app.add_option("--nmxm-key", manager.key, "PEM file");
  app.add_option("--nmxm-ro-password-file", line.ro_password_file,
                 "password of ro-user; without it: ro-password");
  app.add_option("--nmxm-rw-password-file", line.rw_password_file,
                 "password of rw-user; without it: rw-password");
  app.add_option("--nmxm-pending-ms", line.pending_ms, "how long an operation is pending");
  app.add_option("--nmxm-progress-ms", line.progress_ms, "how long an operation is in progress");
  app.add_option("--nmxm-lag-ms", line.lag_ms, "how old inventory may be");
  app.add_flag("--nmxm-interop", manager.interop,
               "bend to an existing client: arrays of one, small numbers");
}

imex::Result<void> read_password(const std::string& path, imex::log::Secret& password) {
  if (path.empty()) return {};
  IMEX_TRY(std::string text, imex::os::read_file(path));
  while (text.ends_with('\n')) text.pop_back();
  password = imex::log::Secret(std::move(text));
  return {};
}

void describe(CLI::App& app, CommandLine& line) {
  app.footer(kFooter);
  app.set_version_flag("--version", imex::version_line());
  app.add_option("--racks", line.rack.racks, "NVLink domains to simulate");
  app.add_option("--topology", line.topology,
                 "nvl72, nvl36, nvl36x2 or custom:trays=N,gpus=N,switches=N,chips=N");
  app.add_option("--seed", line.rack.seed, "same seed, same uids, serials and wiring");
  app.add_option("--personality", line.personality, "2.20, 1.3, strict, draft or interop");
  app.add_option("--set", line.switches,
                 "one switch of the personality, e.g. clique-change=immediate; repeatable");
  app.add_option(
      "--listen", line.listen,
      "ADDRESS:PORT of the first NMX-C; the next racks take the next ports; port 0: any");
  app.add_option("--tls-certificate", line.rack.certificate, "PEM file: serve over TLS");
  app.add_option("--tls-key", line.rack.key, "PEM file");
  app.add_option("--tls-client-ca", line.rack.client_authority,
                 "PEM file: ask clients for a certificate");
  app.add_option("--state-dir", line.rack.state_dir,
                 "keep state over restarts here; without it, it is forgotten");
  app.add_flag("--forget", line.rack.forget, "begin without what --state-dir holds");
  app.add_option("--nodes-dir", line.rack.nodes_dir,
                 "write what each tray's GPUs see to DIR/rack-N/tray-NN.toml");
  app.add_option("--control", line.rack.control_path, "Unix socket for faults and status");
  describe_manager(app, line);
  app.add_option("--ready-fd", line.ready_fd, "descriptor for the ready line")
      ->check(CLI::Range(1, 1023));
  app.add_option("--log-level", line.log_level, "error, warn, info or debug")
      ->check(CLI::IsMember({"error", "warn", "info", "debug"}));
}

imex::Result<void> complete(CommandLine& line) {
  IMEX_TRY(line.rack.topology, imex::rack::find_topology(line.topology));
  IMEX_TRY(line.rack.personality, imex::rack::find_personality(line.personality));
  for (const std::string& setting : line.switches) {
    IMEX_CHECK_OK(imex::rack::set_personality(line.rack.personality, setting));
  }
  if (line.personality == "interop") line.rack.topology.tray_index_base = 1;
  const auto colon = line.listen.rfind(':');
  if (colon == std::string::npos)
    return imex::fail(imex::Errc::kInvalidArgument, "--listen: want ADDRESS:PORT");
  unsigned port = 65536;
  const std::string digits = line.listen.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port > 65535) {
    return imex::fail(imex::Errc::kInvalidArgument, "--listen: want a port from 0 to 65535");
  }
  line.rack.address = line.listen.substr(0, colon);
  line.rack.port = static_cast<std::uint16_t>(port);
  line.rack.manager.pending = std::chrono::milliseconds(line.pending_ms);
  line.rack.manager.in_progress = std::chrono::milliseconds(line.progress_ms);
  line.rack.manager.lag = std::chrono::milliseconds(line.lag_ms);
  IMEX_CHECK_OK(read_password(line.ro_password_file, line.rack.manager.ro_password));
  IMEX_CHECK_OK(read_password(line.rw_password_file, line.rack.manager.rw_password));
  return line.rack.validate();
}

imex::log::Level level(const std::string& name) {
  if (name == "error") return imex::log::Level::kError;
  if (name == "warn") return imex::log::Level::kWarn;
  return name == "debug" ? imex::log::Level::kDebug : imex::log::Level::kInfo;
}

int run(CommandLine line) {
  imex::log::Options log_options;
  log_options.threshold = level(line.log_level);
  log_options.headline = false;
  imex::log::Logger log(log_options);
  imex::net::EventLoop loop;
  auto server = RackServer::start(loop, std::move(line.rack), log);
  if (!server) {
    std::cerr << "imex-rack: " << server.error().to_string() << '\n';
    return kExitFailed;
  }
  const imex::net::SignalWatch signals(loop, {SIGTERM, SIGINT}, [&loop](int) { loop.stop(); });
  const std::string ready = (*server)->ready_line() + "\n";
  if (const auto told =
          imex::os::write_all(line.ready_fd, std::as_bytes(std::span(ready)), "ready line");
      !told) {
    std::cerr << "imex-rack: " << told.error().to_string() << '\n';
    return kExitFailed;
  }
  loop.run();
  return kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  CLI::App app(
      "Simulated NVLink racks: fabric controllers over gRPC, faults, what the nodes' drivers see.");
  describe(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (const auto completed = complete(line); !completed) {
    std::cerr << "imex-rack: " << completed.error().to_string() << '\n';
    return kExitUsage;
  }
  return run(std::move(line));
}
