// nvidia-imex-ctl: the control and query tool of the node daemon (imex-service section 11).
//
// -q is asked by probes every second and read byte for byte: one word and a newline on standard
// output, nothing on standard error, whatever happens.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/version.hpp"
#include "domain/command_client.hpp"
#include "domain/config.hpp"
#include "domain/domain_query.hpp"
#include "domain/domain_view.hpp"
#include "options.hpp"

namespace imex::ctl {
namespace {

using namespace std::chrono_literals;
using domain::CommandClient;
using domain::CommandEndpoint;
using domain::DaemonStatus;
using domain::DomainView;
using domain::LocalAnswer;

enum Exit : int { kDone = 0, kFailed = 1, kUsage = 64, kBadConfig = 65, kBadList = 66 };
constexpr auto kMonitorInterval = 500ms;

/// Whom to ask, and with which list, as the options and the configuration say.
struct Target {
  std::vector<CommandEndpoint> endpoints;
  std::uint16_t port = 50005;  ///< of the other nodes' command services
  Result<domain::NodeList> list = domain::NodeList{};
  std::optional<Error> config_error;  ///< the file was named and cannot be used
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}
void complain(const Error& error) {
  fmt::print(stderr, "nvidia-imex-ctl: {}\n", error.to_string());
}

Target find_target(const Options& options) {
  Target target;
  if (!options.socket.empty()) {
    target.endpoints = {{options.socket, {}, 0}};
    return target;
  }
  if (!options.address.empty()) {
    target.endpoints = {{{}, options.address, options.port}};
    target.port = options.port;
    return target;
  }
  auto loaded = domain::load_config(options.config, domain::Personality::kNvidiaImex);
  domain::DaemonConfig config;
  if (loaded) {
    config = std::move(loaded->config);
  } else if (options.config_given || loaded.error().code != Errc::kNotFound) {
    target.config_error = std::move(loaded).error();
    return target;
  }
  target.endpoints = domain::local_endpoints(config);
  target.port = config.command_port;
  target.list = domain::read_node_list(config);
  return target;
}

Result<LocalAnswer> ask(const Target& target) { return domain::ask_local(target.endpoints); }

/// For callers that cannot get an answer. Monitors look for the list's error on standard output.
int no_answer(const Target& target, const Error& error, bool quiet) {
  if (!target.list) {
    print(target.list.error().message + '\n');
    return kBadList;
  }
  if (!quiet) complain(error);
  return kFailed;
}

int query_deep(const CommandEndpoint& endpoint) {
  auto client = CommandClient::connect(endpoint);
  const auto health =
      client ? client->health() : Result<domain::HealthReport>(fail(client.error()));
  if (!health) {
    print(fmt::format("health cannot be asked: {}\n", health.error().to_string()));
    return kFailed;
  }
  for (const std::string& problem : health->problems) print(problem + '\n');
  const bool ready = health->status.status == DaemonStatus::kReady;
  return ready && health->problems.empty() ? kDone : kFailed;
}

int query(const Options& options, const Target& target) {
  const auto local = ask(target);
  if (!local) {
    if (!target.list) return no_answer(target, local.error(), true);
    print(fmt::format("{}\n", domain::status_word(DaemonStatus::kUnavailable)));
    return kFailed;
  }
  print(fmt::format("{}\n", domain::status_word(local->report.status)));
  return options.deep ? query_deep(local->endpoint) : kDone;
}

int subscribe(const Options& options, const Target& target) {
  const auto local = ask(target);
  if (!local) return no_answer(target, local.error(), false);
  auto client = CommandClient::connect(local->endpoint);
  if (!client) return no_answer(target, client.error(), false);
  std::optional<DaemonStatus> last;
  const auto done = client->watch(
      [&](const domain::StatusReport& report) {
        const bool stop =
            report.status == DaemonStatus::kReady || report.status == DaemonStatus::kShuttingDown;
        if (last != report.status) {
          print(fmt::format("{} stopAtReady: 1 keepGoing: {}\n", domain::status_word(report.status),
                            stop ? 0 : 1));
        }
        last = report.status;
        return !stop;
      },
      options.timeout.value_or(std::chrono::hours(24 * 365)));
  print("Finishing subscription\n");
  if (!done) complain(done.error());
  return done && last == DaemonStatus::kReady ? kDone : kFailed;
}

std::string render(const Options& options, const DomainView& view, const DomainView* previous) {
  const domain::RenderOptions how{.host_names = options.host_names,
                                  .legend = previous == nullptr,
                                  .previous = previous,
                                  .time = std::chrono::system_clock::now()};
  return options.json ? domain::render_json(view, how) : domain::render_text(view, how);
}

/// One query of everybody. The whole of it fits into one deadline: what the local daemon used up is
/// missing for the others.
DomainView look(const Target& target, const Result<LocalAnswer>& local,
                std::chrono::steady_clock::time_point begin) {
  const auto used = std::chrono::steady_clock::now() - begin;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(domain::kQueryTimeout - used);
  return domain::query_domain(local, target.list ? *target.list : domain::NodeList{}, target.port,
                              std::max(left, std::chrono::milliseconds(200)));
}

int domain_once(const Options& options, const Target& target) {
  const auto begin = std::chrono::steady_clock::now();
  // Half of the time at most for a local daemon that hangs, so that the others can still be shown.
  const auto local = domain::ask_local(target.endpoints, domain::kQueryTimeout / 2);
  if (!local && (!target.list || target.list->entries.empty())) {
    return no_answer(target, local.error(), false);
  }
  const DomainView view = look(target, local, begin);
  print(render(options, view, nullptr));
  const auto answered = [](const domain::NodeView& node) { return node.report.has_value(); };
  return std::ranges::any_of(view.nodes, answered) ? kDone : kFailed;
}

/// Ends with the terminal or the pipe, as `watch` would.
int domain_monitor(const Options& options, const Target& target) {
  std::optional<DomainView> last;
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    const auto local = domain::ask_local(target.endpoints, domain::kQueryTimeout / 2);
    if (!local && !last && (!target.list || target.list->entries.empty())) {
      return no_answer(target, local.error(), false);
    }
    DomainView view = look(target, local, begin);
    if (!local && view.nodes.empty() && last)
      view = *last;  // asked by -i or -u: no list of our own
    if (!last || domain::differs(view, *last)) {
      print(render(options, view, last ? &*last : nullptr));
      if (std::ferror(stdout) != 0) return kFailed;
      last = std::move(view);
    }
    std::this_thread::sleep_until(begin + kMonitorInterval);
  }
}

int run(const Options& options) {
  if (options.verb == Verb::kHelp) return print(help_text()), kDone;
  if (options.verb == Verb::kVersion) return print(version_line() + '\n'), kDone;
  const Target target = find_target(options);
  if (target.config_error) {
    // On standard output for -q, whose callers take anything on standard error for a fault.
    if (options.verb == Verb::kStatus)
      print(target.config_error->message + '\n');
    else
      complain(*target.config_error);
    return kBadConfig;
  }
  switch (options.verb) {
    case Verb::kStatus:
      return query(options, target);
    case Verb::kSubscribe:
      return subscribe(options, target);
    case Verb::kDomain:
      return domain_once(options, target);
    default:
      return domain_monitor(options, target);
  }
}

}  // namespace
}  // namespace imex::ctl

int main(int argc, char** argv) {
  // gRPC logs to standard error on its own account, which must stay empty.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  const auto options = imex::ctl::parse_options(
      std::span<const char* const>(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0));
  if (!options) {
    imex::ctl::complain(options.error());
    return imex::ctl::kUsage;
  }
  const int status = imex::ctl::run(*options);
  // Everything is printed and owned by nobody else: waiting for gRPC's threads to wind down would
  // only make the probe slower.
  std::fflush(stdout);
  ::_exit(status);
}
