#include "rack_state.hpp"

#include <fmt/format.h>

#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::rack {

Rack::Rack(net::EventLoop& loop, RackServerOptions options, log::Logger& log)
    : loop_(loop), options_(std::move(options)), log_(log), delays_(loop), timer_(loop) {}

Rack::~Rack() = default;

void Rack::wake() {
  if (!pulse_asked_.exchange(true)) loop_.post([this] { pulse(); });
}

Result<void> Rack::open() {
  if (!options_.state_dir.empty()) IMEX_CHECK_OK(os::make_directories(options_.state_dir));
  for (unsigned index = 0; index < options_.racks; ++index) {
    const std::string name = fmt::format("rack-{}", index);
    HostFiles files;
    if (!options_.state_dir.empty())
      files.state = fmt::format("{}/{}.json", options_.state_dir, name);
    if (!options_.nodes_dir.empty())
      files.tray_dir = fmt::format("{}/{}", options_.nodes_dir, name);
    if (options_.forget && !files.state.empty()) os::remove_file(files.state);
    DomainOptions domain{.name = name,
                         .index = index,
                         .seed = options_.seed,
                         .topology = options_.topology,
                         .personality = options_.personality};
    RackEntry entry;
    entry.host =
        std::make_unique<DomainHost>(std::move(domain), std::move(files), log_, [this] { wake(); });
    if (options_.port != 0) entry.primary_port = static_cast<std::uint16_t>(options_.port + index);
    IMEX_CHECK_OK(entry.host->open());
    IMEX_CHECK_OK(follow_faults(entry));
    entries_.push_back(std::move(entry));
  }
  pulse();
  return {};
}

RackEntry* Rack::find(const std::string& name) {
  for (RackEntry& entry : entries_) {
    MutexLock lock(entry.host->mutex);
    if (entry.host->domain.options().name == name) return &entry;
  }
  return nullptr;
}

void Rack::pulse() {
  pulse_asked_ = false;
  Time next = kNever;
  for (RackEntry& entry : entries_) {
    next = std::min(next, entry.host->pulse(os::now()));
    const auto followed = follow_faults(entry);
    if (followed) continue;
    log_.limited(log::Level::kError, "a fabric controller cannot listen",
                 {{"reason", followed.error().to_string()}});
    next = std::min(next, os::now() + std::chrono::seconds(1));
  }
  if (manager_ != nullptr) {
    next = std::min(next, manager_->pulse(os::now(), std::chrono::system_clock::now()));
  }
  timer_.arm(next, [this] { pulse(); });
}

/// Stops and starts services so that they are as the faults want them. Only the loop does this:
/// ending a service waits for its calls, which never wait for the loop.
Result<void> Rack::follow_faults(RackEntry& entry) {
  TlsFiles tls{options_.certificate, options_.key, options_.client_authority};
  bool unreachable = false, moved = false, split = false;
  std::string manner;
  {
    MutexLock lock(entry.host->mutex);
    const FaultSet& faults = entry.host->domain.faults();
    unreachable = faults.holds(FaultKind::kUnreachable) != nullptr;
    moved = faults.holds(FaultKind::kFailover) != nullptr;
    split = faults.holds(FaultKind::kSplit) != nullptr;
    for (const FaultKind kind : {FaultKind::kCertRotated, FaultKind::kCertExpired}) {
      const Fault* other = faults.holds(kind);
      if (other == nullptr || other->text.empty()) continue;
      tls.certificate = other->text + "/server.crt";
      tls.key = other->text + "/server.key";
    }
    manner = fmt::format("{} {}", tls.certificate, faults.holds(FaultKind::kVersion) != nullptr);
  }
  if (manner != entry.manner) {
    entry.primary.reset();
    entry.standby.reset();
    entry.manner = manner;
  }
  const auto follow = [&](bool wanted, std::unique_ptr<NmxcService>& service, std::uint16_t& port,
                          bool second) -> Result<void> {
    if (!wanted) service.reset();
    if (!wanted || service) return {};
    IMEX_TRY(service,
             NmxcService::start(loop_, delays_, *entry.host, options_.address, port, tls, second));
    port = service->port();
    return {};
  };
  IMEX_CHECK_OK(follow(!unreachable && !moved, entry.primary, entry.primary_port, false));
  return follow(!unreachable && (moved || split), entry.standby, entry.standby_port,
                split && !moved);
}

}  // namespace imex::rack
