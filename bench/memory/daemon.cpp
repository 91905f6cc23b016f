// The daemon itself: how fast it is there, and what it costs while nothing happens.
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "bench/daemons.hpp"
#include "bench/memory.hpp"
#include "bench/worker.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kStartTrials = 20, kDomainTrials = 3;
constexpr std::uint32_t kDomainNodes = 18;
constexpr std::chrono::seconds kTimeout{30};
constexpr double kStartMaxUs = 100'000, kUpMaxUs = 2'000'000;
constexpr double kResidentMaxBytes = 25.0 * 1024 * 1024;
constexpr double kIdleAloneMaxPercent = 0.1, kIdlePeersMaxPercent = 0.5;

Result<Row> start_to_ready(const MemoryOptions& options) {
  IMEX_TRY(auto daemons, Daemons::prepare(options.imexd, 1));
  Samples samples;
  for (std::size_t i = 0; i < options.scaled(kStartTrials); ++i) {
    const std::int64_t begin = now_ns();
    IMEX_CHECK_OK(daemons.start(0));
    IMEX_CHECK_OK(daemons.wait_ready(1, kTimeout));
    samples.push_back(now_ns() - begin);
    IMEX_CHECK_OK(daemons.stop(0));
  }
  Row row{.operation = "daemon_start_to_ready",
          .placement = "one daemon",
          .time = summarize(std::move(samples))};
  row.checked = true;
  row.mark = Mark{"p50 under 100 ms", row.time.median_us, kStartMaxUs};
  return row;
}

Result<Row> domain_to_up(const MemoryOptions& options) {
  Samples samples;
  for (std::size_t i = 0; i < options.scaled(kDomainTrials); ++i) {
    IMEX_TRY(auto daemons, Daemons::prepare(options.imexd, kDomainNodes));
    std::vector<std::string> sockets;
    for (std::uint32_t node = 0; node < kDomainNodes; ++node) {
      IMEX_CHECK_OK(daemons.start(node));
      sockets.push_back(daemons.command_socket(node));
    }
    const std::int64_t last_start = now_ns();
    // Also takes the messages out of the socket: it holds ten, then the eleventh daemon would wait.
    IMEX_CHECK_OK(daemons.wait_ready(kDomainNodes, kTimeout));
    IMEX_TRY(const std::int64_t up, wait_until_up(sockets, kDomainNodes, kTimeout));
    samples.push_back(up - last_start);
  }
  Row row{.operation = "last_start_to_domain_up",
          .placement = "18 daemons",
          .ranks = kDomainNodes,
          .time = summarize(std::move(samples))};
  row.checked = true;
  row.mark = Mark{"all under 2 s", row.time.max_us, kUpMaxUs};
  return row;
}

/// The number in front of `text`'s next blank, after `key`; 0 when there is none.
std::uint64_t number_after(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Nanoseconds that all threads of a process have run (first field of schedstat).
std::uint64_t run_ns(std::int32_t pid) {
  std::uint64_t total = 0;
  std::error_code error;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  for (std::filesystem::directory_iterator at(tasks, error), end; !error && at != end;
       at.increment(error)) {
    if (const auto text = os::read_file(at->path().string() + "/schedstat"); text) {
      total += number_after(*text, "");
    }
  }
  return total;
}

std::uint64_t resident_bytes(std::int32_t pid) {
  const auto text = os::read_file(fmt::format("/proc/{}/status", pid));
  return text ? number_after(*text, "VmRSS:") * 1024 : 0;
}

/// Watches daemons that nobody uses; reports the one that costs most.
Result<Row> idle(const MemoryOptions& options, std::uint32_t count, double percent_max) {
  IMEX_TRY(auto daemons, Daemons::prepare(options.imexd, count));
  IMEX_CHECK_OK(daemons.start_all());
  std::vector<std::uint64_t> before;
  before.reserve(count);
  for (std::uint32_t node = 0; node < count; ++node) before.push_back(run_ns(daemons.pid(node)));
  const std::int64_t begin = now_ns();
  // Watching idleness is waiting: the pipe never becomes readable, the wait ends at its deadline.
  IMEX_TRY(const auto ends, socket_pair());
  static_cast<void>(
      os::wait_readable(ends.first.get(), std::chrono::steady_clock::now() + options.idle));
  const auto watched_ns = static_cast<double>(now_ns() - begin);

  double percent = 0, resident = 0;
  for (std::uint32_t node = 0; node < count; ++node) {
    const std::uint64_t ran = run_ns(daemons.pid(node)) - before[node];
    percent = std::max(percent, 100.0 * static_cast<double>(ran) / watched_ns);
    resident = std::max(resident, static_cast<double>(resident_bytes(daemons.pid(node))));
  }
  if (resident == 0) return fail(Errc::kPeerLost, "an idle imexd ended while it was watched");
  Row row{.operation = "daemon_idle",
          .placement = count == 1 ? "alone" : "with 17 peers",
          .ranks = count,
          .time = {}};
  row.figures = {{"resident_bytes", resident},
                 {"resident_limit_bytes", kResidentMaxBytes},
                 {"core_percent", percent},
                 {"core_limit_percent", percent_max},
                 {"watched_seconds", watched_ns / 1e9}};
  // Two limits, one verdict: the worse share of the two.
  row.mark = Mark{fmt::format("under 25 MiB and {} % of a core", percent_max),
                  std::max(resident / kResidentMaxBytes, percent / percent_max), 1.0};
  return row;
}

}  // namespace

Result<std::vector<Row>> measure_start(const MemoryOptions& options) {
  IMEX_TRY(auto ready, start_to_ready(options));
  IMEX_TRY(auto up, domain_to_up(options));
  return std::vector<Row>{std::move(ready), std::move(up)};
}

Result<std::vector<Row>> measure_idle(const MemoryOptions& options) {
  IMEX_TRY(auto alone, idle(options, 1, kIdleAloneMaxPercent));
  IMEX_TRY(auto peers, idle(options, kDomainNodes, kIdlePeersMaxPercent));
  return std::vector<Row>{std::move(alone), std::move(peers)};
}

}  // namespace imex::bench
