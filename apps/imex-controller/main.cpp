// imex-controller: hands out NVLink partitions. Options, objects, run.
#include <csignal>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "administration.hpp"
#include "base/version.hpp"
#include "inventory.hpp"
#include "managers.hpp"
#include "metrics/registry.hpp"
#include "net/event_loop.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "partition/controller/config.hpp"
#include "partition/controller/controller.hpp"
#include "partition/rest/rest_server.hpp"
#include "partition/service/service.hpp"
#include "partition/store/store.hpp"

namespace {

using imex::Result;
using imex::partition::ControllerConfig;

constexpr int kExitOk = 0, kExitUsage = 64, kExitFailed = 70, kExitConfig = 78;
constexpr std::size_t kConfigBytesMax = 1U << 20U;

constexpr const char* kFooter =
    "Example:\n"
    "  imex-controller --config /etc/imex/controller.toml --store /var/lib/imex/controller.db\n"
    "  imex-controller --store ./c.db --endpoint http://127.0.0.1:9370 --listen 127.0.0.1:0\n"
    "\n"
    "When it serves, one line of JSON on standard output (or --ready-fd) tells its ports.\n"
    "Signals: TERM and INT stop after what has begun. Exit status: 0 clean stop, 64 usage,\n"
    "70 failed, 78 configuration.";

struct CommandLine {
  std::string config_file, store, key_file, listen, metrics_listen, log_level = "info";
  std::vector<std::string> endpoints, admin_listen;
  std::string interval;
  int ready_fd = 1;
};

void describe(CLI::App& app, CommandLine& line) {
  app.footer(kFooter);
  app.set_version_flag("--version", imex::version_line());
  app.add_option("--config", line.config_file, "TOML file; options win over it");
  app.add_option("--store", line.store, "SQLite file, or postgresql://…");
  app.add_option("--key-file", line.key_file, "key that seals credentials in the store");
  app.add_option("--listen", line.listen, "ADDRESS:PORT of the REST API; port 0: any");
  app.add_option("--metrics-listen", line.metrics_listen, "ADDRESS:PORT of /metrics; port 0: any");
  app.add_option("--admin-listen", line.admin_listen,
                 "where gRPC forge.Forge listens without TLS: unix:PATH or a loopback address; "
                 "with TLS: [administration] of the file");
  app.add_option("--endpoint", line.endpoints,
                 "URL of an NMX-C fabric manager, besides those of file and store; repeatable");
  app.add_option("--monitor-run-interval", line.interval, "period of passes, e.g. 60s");
  app.add_option("--ready-fd", line.ready_fd, "descriptor for the ready line")
      ->check(CLI::Range(1, 1023));
  app.add_option("--log-level", line.log_level, "error, warn, info or debug")
      ->check(CLI::IsMember({"error", "warn", "info", "debug"}));
}

Result<ControllerConfig> configuration(const CommandLine& line) {
  std::string text;
  if (!line.config_file.empty()) {
    IMEX_TRY(text, imex::os::read_file(line.config_file, kConfigBytesMax));
  }
  if (!line.interval.empty()) {
    // Through the same reader, so that it takes what the file takes.
    IMEX_TRY(const ControllerConfig one,
             imex::partition::parse_controller_config(
                 "[nvlink_config]\nmonitor_run_interval = '" + line.interval + "'",
                 "--monitor-run-interval"));
    IMEX_TRY(ControllerConfig config,
             imex::partition::parse_controller_config(text, line.config_file));
    config.settings.interval = one.settings.interval;
    return config;
  }
  return imex::partition::parse_controller_config(text, line.config_file);
}

void apply(const CommandLine& line, ControllerConfig& config) {
  if (!line.store.empty()) config.store = line.store;
  if (!line.key_file.empty()) config.key_file = line.key_file;
  if (!line.listen.empty()) config.listen = line.listen;
  if (!line.metrics_listen.empty()) config.metrics_listen = line.metrics_listen;
  if (!line.admin_listen.empty()) {
    config.administration.listen = line.admin_listen;
    config.administration.trust_local = true;
  }
  for (const std::string& url : line.endpoints) config.endpoints.push_back({.url = url});
}

imex::log::Level level(const std::string& name) {
  if (name == "error") return imex::log::Level::kError;
  if (name == "warn") return imex::log::Level::kWarn;
  return name == "debug" ? imex::log::Level::kDebug : imex::log::Level::kInfo;
}

std::vector<imex::partition::RestIssuer> issuers_of(const ControllerConfig& config) {
  std::vector<imex::partition::RestIssuer> issuers;
  for (const imex::partition::ConfiguredIssuer& from : config.issuers) {
    imex::partition::RestIssuer issuer;
    issuer.keys.name = from.name;
    issuer.keys.issuer = from.issuer;
    issuer.keys.key_set = from.jwks;
    issuer.keys.audiences = from.audiences;
    issuer.scopes = from.scopes;
    issuer.mappings.push_back(
        {from.org, from.org_claim, from.roles, from.roles_claim, from.service_account});
    issuers.push_back(std::move(issuer));
  }
  return issuers;
}

/// Answers at once and for as long as the process lives; whether this replica leads is a metric.
Result<std::unique_ptr<imex::partition::RestServer>> serve_rest(const ControllerConfig& config,
                                                                imex::partition::Store& store,
                                                                imex::partition::Service& service,
                                                                imex::metrics::Registry& registry,
                                                                imex::log::Logger& log) {
  imex::partition::RestOptions options;
  options.listeners = {{.address = config.listen}};
  options.metrics_listeners = {{.address = config.metrics_listen}};
  options.issuers = issuers_of(config);
  options.ready = [&store]() -> Result<void> {
    return store.read([](imex::partition::ReadTransaction&) -> Result<void> { return {}; });
  };
  return imex::partition::RestServer::start(std::move(options),
                                            imex::partition::operations_of(service), registry, log);
}

Result<void> serve(const ControllerConfig& config, int ready_fd, imex::log::Logger& log) {
  imex::net::EventLoop loop;
  const imex::net::SignalWatch signals(loop, {SIGTERM, SIGINT}, [&loop](int) { loop.stop(); });
  IMEX_TRY(auto store, imex::partition::Store::open({.url = config.store,
                                                     .key_file = config.key_file,
                                                     .replica = imex::os::host_name()}));
  IMEX_CHECK_OK(imex::controller::write_inventory(*store, config));

  imex::metrics::Registry registry;
  imex::partition::ControllerMetrics metrics(registry, config.carbide_metrics);
  const auto count_partitions = [&store]() -> Result<std::uint64_t> {
    std::uint64_t count = 0;
    IMEX_CHECK_OK(store->read([&](imex::partition::ReadTransaction& t) -> Result<void> {
      IMEX_TRY(count, t.count<imex::partition::LogicalPartition>({}));
      return {};
    }));
    return count;
  };
  imex::partition::Controller controller(
      config.settings, *store, imex::controller::manager_factory(config, log),
      {.log = log, .metrics = metrics, .count_logical_partitions = count_partitions});
  imex::partition::ServiceOptions service_options;
  service_options.observation_valid =
      std::chrono::ceil<std::chrono::seconds>(3 * config.settings.interval);
  imex::partition::Service service(*store, service_options);
  IMEX_TRY(const auto rest, serve_rest(config, *store, service, registry, log));
  IMEX_TRY(auto administration,
           imex::controller::start_administration(
               config, *store, imex::controller::manager_factory(config, log), log));
  controller.start();

  nlohmann::json ready = nlohmann::json::object();
  ready["ready"] = true;
  ready["pid"] = imex::os::process_id();
  ready["port"] = rest->port();
  ready["metrics_port"] = rest->metrics_port();
  if (administration.server) ready["administration"] = administration.server->addresses();
  const std::string text = ready.dump() + "\n";
  IMEX_CHECK_OK(imex::os::write_all(ready_fd, std::as_bytes(std::span(text)), "ready line"));
  loop.run();
  log.info("stopping");
  administration.server.reset();
  rest->stop(std::chrono::seconds(5));
  controller.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  CLI::App app("Controller of NVLink partitions: hands out GPUs to tenants, keeps the fabric so.");
  describe(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  auto config = configuration(line);
  if (!config) {
    std::cerr << "imex-controller: " << config.error().to_string() << '\n';
    return kExitConfig;
  }
  apply(line, *config);
  imex::log::Options log_options;
  log_options.threshold = level(line.log_level);
  log_options.headline = false;
  imex::log::Logger log(log_options);
  if (const auto served = serve(*config, line.ready_fd, log); !served) {
    std::cerr << "imex-controller: " << served.error().to_string() << '\n';
    return kExitFailed;
  }
  return kExitOk;
}
