#include "bench/control/control_plane.hpp"

#include <csignal>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api.hpp"
#include "json/json.hpp"
#include "jwt/signer.hpp"
#include "os/file.hpp"

namespace imex::bench {
namespace {

using Value = nlohmann::json;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kStopPatience{10};
constexpr const char* kIssuer = "https://bench.invalid";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Asks until `done` says so. Errors: kDeadlineExceeded, those of `done`.
Result<void> wait_until(std::chrono::seconds patience, const std::string& what,
                        const std::function<Result<bool>()>& done) {
  const auto deadline = steady_clock::now() + patience;
  for (;;) {
    IMEX_TRY(const bool reached, done());
    if (reached) return {};
    if (steady_clock::now() > deadline)
      return fail(Errc::kDeadlineExceeded,
                  fmt::format("{}: not within {} s", what, patience.count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

struct Started {
  os::Child child;
  Value ready;  ///< the line that it printed
};

/// Starts a program and waits for its ready line. Its standard error goes to NAME.log.
Result<Started> start_program(std::vector<std::string> arguments, const std::string& directory,
                              const std::string& name, std::chrono::seconds patience) {
  std::error_code error;
  if (!std::filesystem::exists(arguments.front(), error)) {
    return fail(Errc::kNotFound, fmt::format("{} does not exist", arguments.front()),
                "build it, or name another");
  }
  const std::string ready_file = fmt::format("{}/{}.ready", directory, name);
  const std::string log_file = fmt::format("{}/{}.log", directory, name);
  IMEX_TRY(const auto out, os::open_for_append(ready_file, true));
  IMEX_TRY(const auto log, os::open_for_append(log_file, true));
  os::Child::Options options;
  options.arguments = std::move(arguments);
  options.stdout_fd = out.get();
  options.stderr_fd = log.get();
  IMEX_TRY(auto child, os::Child::start(options));
  std::string line;
  auto came = wait_until(patience, name + " becomes ready", [&]() -> Result<bool> {
    IMEX_TRY(line, os::read_file(ready_file));
    if (line.find('\n') != std::string::npos) return true;
    if (!child.wait(std::chrono::milliseconds(0))) return false;
    return fail(Errc::kUnavailable, name + " ended");
  });
  if (!came) {
    const auto said = os::read_file(log_file);
    return fail(std::move(came).error().context(said ? *said : name));
  }
  IMEX_TRY(Value ready, json::parse(line.substr(0, line.find('\n')), name + "'s ready line"));
  return Started{std::move(child), std::move(ready)};
}

void stop(std::optional<os::Child>& child) noexcept {
  if (!child) return;
  static_cast<void>(child->kill(SIGTERM));
  static_cast<void>(child->wait(kStopPatience));
  child.reset();
}

}  // namespace

ControlPlane::ControlPlane(ControlPlane&&) noexcept = default;

ControlPlane& ControlPlane::operator=(ControlPlane&& other) noexcept {
  if (this != &other) {
    end();
    options_ = std::move(other.options_);
    directory_ = std::exchange(other.directory_, {});
    url_ = std::move(other.url_);
    token_file_ = std::move(other.token_file_);
    token_ = other.token_;
    endpoints_ = std::move(other.endpoints_);
    port_ = other.port_;
    machines_ = other.machines_;
    site_ = other.site_;
    type_ = other.type_;
    rack_ = std::exchange(other.rack_, {});
    controller_ = std::exchange(other.controller_, {});
  }
  return *this;
}

ControlPlane::~ControlPlane() { end(); }

void ControlPlane::end() noexcept {
  stop(controller_);
  stop(rack_);
  if (!directory_.empty()) static_cast<void>(os::remove_tree(directory_));
  directory_.clear();
}

Result<ControlPlane> ControlPlane::start(ControlPlaneOptions options) {
  ControlPlane plane;
  plane.options_ = std::move(options);
  IMEX_TRY(plane.directory_, os::make_temporary_directory("imex-control"));
  IMEX_CHECK_OK(plane.start_rack());
  IMEX_CHECK_OK(plane.make_token());
  IMEX_CHECK_OK(plane.start_controller(plane.options_.interval));
  IMEX_CHECK_OK(plane.provision());
  return plane;
}

Result<void> ControlPlane::start_rack() {
  IMEX_TRY(auto started,
           start_program({options_.rack, "--racks", std::to_string(options_.domains), "--topology",
                          options_.topology, "--listen", "127.0.0.1:0", "--control", rack_control(),
                          "--set", "clique-change=immediate", "--log-level", "error"},
                         directory_, "imex-rack", options_.patience));
  rack_ = std::move(started.child);
  const Value* const racks = json::find(started.ready, "racks");
  if (racks == nullptr || !racks->is_array())
    return fail(Errc::kDataLoss, "imex-rack's ready line names no racks");
  for (const Value& each : *racks) {
    IMEX_TRY(const std::string address, json::required_string(each, "address"));
    IMEX_TRY(const std::uint64_t port, json::required_u64(each, "port"));
    IMEX_TRY(const std::uint64_t trays, json::required_u64(each, "trays"));
    endpoints_.push_back(fmt::format("http://{}:{}", address, port));
    machines_ += static_cast<std::uint32_t>(trays);
  }
  return {};
}

/// A token with all rights in our org, and the key set that the controller checks it with.
Result<void> ControlPlane::make_token() {
  IMEX_TRY(const auto signer, jwt::Signer::generate(jwt::Algorithm::kEs256));
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  IMEX_TRY(const std::string token, signer.sign({{"iss", kIssuer},
                                                 {"sub", "bench"},
                                                 {"org", kOrg},
                                                 {"roles", {"PROVIDER_ADMIN", "TENANT_ADMIN"}},
                                                 {"iat", now.count()},
                                                 {"exp", now.count() + 24 * 3600}}));
  token_ = log::Secret(token);
  token_file_ = directory_ + "/token";
  IMEX_CHECK_OK(os::replace_file(token_file_, bytes_of(token)));
  return os::replace_file(directory_ + "/keys.json", bytes_of(signer.key_set()));
}

Result<void> ControlPlane::start_controller(const std::string& interval) {
  std::string config = fmt::format(
      "[controller]\nstore = '{0}/controller.db'\nlisten = '127.0.0.1:{1}'\n"
      "metrics_listen = '127.0.0.1:0'\nsite = 'bench'\nprovider_org = '{2}'\n\n"
      "[nvlink_config]\nenabled = true\nmonitor_run_interval = '{3}'\n\n"
      "[[issuer]]\nname = 'bench'\nissuer = '{4}'\njwks = '{0}/keys.json'\n"
      "org_claim = 'org'\nroles_claim = 'roles'\n",
      directory_, port_, kOrg, interval, kIssuer);
  for (const std::string& endpoint : endpoints_)
    config += fmt::format("\n[[endpoint]]\nkind = 'nmx-c'\nurl = '{}'\n", endpoint);
  const std::string config_file = directory_ + "/controller.toml";
  IMEX_CHECK_OK(os::replace_file(config_file, bytes_of(config)));
  IMEX_TRY(auto started,
           start_program({options_.controller, "--config", config_file, "--log-level", "error"},
                         directory_, "imex-controller", options_.patience));
  controller_ = std::move(started.child);
  IMEX_TRY(const std::uint64_t port, json::required_u64(started.ready, "port"));
  port_ = static_cast<std::uint16_t>(port);
  url_ = fmt::format("http://127.0.0.1:{}", port_);
  return {};
}

bool ControlPlane::controller_runs() {
  return controller_ && !controller_->wait(std::chrono::milliseconds(0));
}

Result<void> ControlPlane::revive_controller() {
  controller_.reset();
  return start_controller(options_.interval);
}

Result<void> ControlPlane::restart_controller(int signal_number, const std::string& interval) {
  IMEX_CHECK_OK(controller_->kill(signal_number));
  if (!controller_->wait(kStopPatience))
    return fail(Errc::kDeadlineExceeded, "imex-controller did not end");
  controller_.reset();
  return start_controller(interval);
}

/// What an operator does once: an instance type of all machines, and an allocation of all of them.
Result<void> ControlPlane::provision() {
  IMEX_TRY(Api api, Api::connect(*this));
  IMEX_TRY(const Value tenant, api.get("/tenant/current"));
  IMEX_TRY(const std::string tenant_id, json::required_string(tenant, "id"));
  IMEX_CHECK_OK(api.get("/infrastructure-provider/current"));
  IMEX_TRY(const Value sites, api.get("/site"));
  if (!sites.is_array() || sites.size() != 1) return fail(Errc::kInternal, "want one site");
  IMEX_TRY(const std::string site, json::required_string(sites.front(), "id"));
  IMEX_TRY(site_.uuid, Uuid::parse(site));

  IMEX_CHECK_OK(
      wait_until(options_.patience, "all machines are found and free", [&]() -> Result<bool> {
        IMEX_TRY(const auto found, api.count("/machine", "status=Ready&siteId=" + site));
        return found == machines_;
      }));
  const Value capability{
      {"type", "GPU"}, {"name", "NVIDIA GB200"}, {"count", 4}, {"deviceType", "NVLink"}};
  IMEX_TRY(const Value type,
           api.post("/instance/type",
                    {{"name", "tray"}, {"siteId", site}, {"machineCapabilities", {capability}}}));
  IMEX_TRY(const std::string type_id, json::required_string(type, "id"));
  IMEX_TRY(type_.uuid, Uuid::parse(type_id));
  for (std::uint32_t page = 1, seen = 0; seen < machines_; ++page) {
    IMEX_TRY(const Value list,
             api.get(fmt::format("/machine?pageSize=100&pageNumber={}&siteId={}", page, site)));
    if (!list.is_array() || list.empty()) return fail(Errc::kDataLoss, "machines went away");
    Value ids = Value::array();
    for (const Value& machine : list) {
      IMEX_TRY(const std::string id, json::required_string(machine, "id"));
      ids.push_back(id);
    }
    seen += static_cast<std::uint32_t>(ids.size());
    IMEX_CHECK_OK(
        api.post(fmt::format("/instance/type/{}/machine", type_id), {{"machineIds", ids}}));
  }
  IMEX_CHECK_OK(api.post("/allocation", {{"name", "all"},
                                         {"tenantId", tenant_id},
                                         {"siteId", site},
                                         {"allocationConstraints",
                                          {{{"resourceType", "InstanceType"},
                                            {"resourceTypeId", type_id},
                                            {"constraintType", "Reserved"},
                                            {"constraintValue", machines_}}}}}));
  return {};
}

std::int32_t ControlPlane::controller_pid() const { return controller_->pid(); }

Result<std::unique_ptr<partition::client::Client>> ControlPlane::tenant() const {
  partition::client::Options options;
  options.url = url_;
  options.org = kOrg;
  options.token = token_;
  options.timeout = std::chrono::seconds(60);
  return partition::client::Client::make(std::move(options));
}

Result<rack::ControlClient> ControlPlane::rack() const {
  return rack::ControlClient::connect(rack_control(), std::chrono::seconds(10));
}

}  // namespace imex::bench
