// imexd, also called nvidia-imex: the node daemon. The name it is called by decides the defaults.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <systemd/sd-daemon.h>

#include "background.hpp"
#include "base/version.hpp"
#include "domain/daemon.hpp"

namespace {

using imex::domain::ExitCode;
using imex::domain::LoadedConfig;
using imex::domain::Personality;

struct Options {
  Personality personality = Personality::kImexd;
  std::vector<std::string> config_paths;
  std::uint16_t port = 0;  ///< 0: as configured
  bool no_gpu = false;
  std::string state_dir, log_format = "text";
};

constexpr const char* kFooter =
    "Example:\n"
    "  imexd --config /etc/nvidia-imex/config.cfg --state-dir /var/lib/imex\n"
    "  nvidia-imex-ctl -c /etc/nvidia-imex/config.cfg -N\n"
    "\n"
    "Signals: TERM, INT, QUIT stop in order; HUP reloads list and certificates (nvidia-imex: "
    "writes\n"
    "the verbose ring); USR1 rebuilds connections; USR2 goes on in a new version of this program.\n"
    "Exit status: 0 clean stop, 64 usage, 65 configuration, 66 node list, 69 port in use,\n"
    "70 internal, 71 no matching interface, 72 another daemon runs here, 74 security,\n"
    "75 node id changed, 76 list mismatch.";

/// nvidia-imex takes long names with one dash as well.
std::vector<std::string> accept_single_dash(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument == "-nogpu" || argument == "-port" || argument == "-config" ||
        argument.starts_with("-port=") || argument.starts_with("-config=")) {
      argument.insert(0, "-");
    }
  }
  return arguments;
}

/// The exit status when there is nothing to run.
std::optional<int> parse(std::vector<std::string> arguments, Options& options) {
  CLI::App app("Node daemon: forms a domain, hands out channels, watches processes and nodes.");
  app.footer(kFooter);
  app.set_version_flag("--version", imex::version_line());
  const bool nvidia = options.personality == Personality::kNvidiaImex;
  auto* config = app.add_option("-c,--config", options.config_paths,
                                "configuration file; imexd serves one domain for each");
  if (nvidia) config->expected(1);
  app.add_option("-p,--port", options.port, "TCP port of the peers, in place of SERVER_PORT")
      ->check(CLI::Range(1, 65535));
  app.add_flag("--nogpu", options.no_gpu, "run the protocol without touching a GPU");
  app.add_option("--state-dir", options.state_dir,
                 "state directory; with several domains each has "
                 "its IMEX_X_STATE_DIR instead");
  app.add_option("--log-format", options.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  try {
    arguments = accept_single_dash(std::move(arguments));
    arguments.erase(arguments.begin());
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? ExitCode::kOk : ExitCode::kUsage;
  }
  if (options.config_paths.empty()) options.config_paths = {"/etc/nvidia-imex/config.cfg"};
  if (options.config_paths.size() > 1 && !options.state_dir.empty()) {
    std::cerr << "--state-dir: with several domains set IMEX_X_STATE_DIR in each configuration\n";
    return ExitCode::kUsage;
  }
  return std::nullopt;
}

std::optional<int> load(const Options& options, std::vector<LoadedConfig>& domains) {
  for (const std::string& path : options.config_paths) {
    auto loaded = imex::domain::load_config(path, options.personality);
    if (!loaded) {
      std::cerr << loaded.error().to_string() << '\n';
      imex::domain::report_failed_start(path, options.state_dir, ExitCode::kBadConfig,
                                        loaded.error());
      return ExitCode::kBadConfig;
    }
    imex::domain::DaemonConfig& config = loaded->config;
    if (options.port != 0) config.port = options.port;
    if (!options.state_dir.empty()) config.state_dir = options.state_dir;
    config.no_gpu = options.no_gpu;
    config.log_json = options.log_format == "json";
    domains.push_back(std::move(*loaded));
  }
  return std::nullopt;
}

std::string own_program() {
  std::string path(4096, '\0');
  const auto size = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  const std::string name = arguments.empty() ? "imexd" : arguments.front();
  Options options;
  if (name.substr(name.rfind('/') + 1) == "nvidia-imex") {
    options.personality = Personality::kNvidiaImex;
  }
  if (const auto status = parse(arguments, options)) return *status;
  imex::domain::DaemonProcess process;
  if (const auto status = load(options, process.domains)) return *status;
  process.program = own_program();
  process.arguments = arguments;

  const bool successor = std::getenv("IMEX_DAEMON_SUCCESSOR") != nullptr;
  ::unsetenv("IMEX_DAEMON_SUCCESSOR");
  imexd::Background background;
  if (process.domains.front().config.daemonize && !successor) {
    if (const auto status = background.fork_now()) return *status;
  }
  process.on_ready = [&background] {
    background.tell_parent(ExitCode::kOk);
    ::sd_notify(0, "READY=1\nSTATUS=READY");
  };
  const int status = imex::domain::run_daemon_process(std::move(process));
  ::sd_notify(0, "STOPPING=1");
  background.tell_parent(status);
  return status;
}
