// A survivor waits on a signal in a victim's memory; the victim is killed; the survivor notes when
// its wait returned, and that it names the victim's rank. A new victim for each trial.
#include <unistd.h>

#include <new>

#include <imex/session.hpp>
#include <imex/signal.hpp>

#include "bench/daemons.hpp"
#include "bench/memory.hpp"
#include "bench/worker.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kTrials = 100;
constexpr std::uint32_t kVictimRank = 1;
constexpr std::chrono::seconds kLossWaitMax{10};
constexpr double kP99MaxUs = 10'000;

/// Exports a signal, touches `private_bytes` of its own, tells its handle, and waits to be killed.
Result<void> live_until_killed(Line& line, const std::string& channel, std::size_t private_bytes) {
  IMEX_TRY(auto session, Session::open({.channel = channel}));
  IMEX_TRY(auto memory, Allocation::create(os::page_bytes()));
  IMEX_TRY(auto exported, session.export_memory(memory, {.rank = kVictimRank}));
  const std::vector<char> touched(private_bytes, 1);
  IMEX_CHECK_OK(line.send({.value = touched.empty() ? 0 : 1U, .handle = exported.handle()}));
  static_cast<void>(
      line.receive());  // nothing comes: ends by SIGKILL, or when the benchmark gives up
  return {};
}

/// For each handle: imports, says that it waits, and reports when the wait returned.
Result<void> survive(Line& line, const std::string& channel) {
  IMEX_TRY(auto session, Session::open({.channel = channel}));
  IMEX_CHECK_OK(line.send({}));
  for (;;) {
    const auto note = line.receive();
    if (!note || note->value == 0) return {};
    IMEX_TRY(const AbortScope scope, session.create_scope());
    {
      IMEX_TRY(auto imported, session.import_memory(note->handle, {.rank = 0, .scope = scope}));
      Signal signal(*std::launder(reinterpret_cast<SignalCell*>(imported.data())));
      WaitOptions options;
      options.deadline = std::chrono::steady_clock::now() + kLossWaitMax;
      options.abort = scope.cell();
      IMEX_CHECK_OK(line.send({}));
      const WaitResult result = signal.wait_until(1, options);
      const std::int64_t returned_ns = now_ns();
      const auto as_error = result.to_result();
      if (as_error || as_error.error().code != Errc::kPeerLost ||
          as_error.error().rank != kVictimRank) {
        return fail(Errc::kInternal,
                    "the wait did not end with peer_lost and the rank of the victim");
      }
      IMEX_CHECK_OK(line.send({.value = static_cast<std::uint64_t>(returned_ns), .handle = {}}));
    }
    session.release_scope(scope);
  }
}

Result<std::int64_t> trial(const std::string& channel, const std::vector<Worker>& survivors,
                           std::size_t private_bytes) {
  IMEX_TRY(auto victim, Worker::start([&](Line& line) {
             return live_until_killed(line, channel, private_bytes);
           }));
  IMEX_TRY(Note note, victim.line().receive());
  note.value = 1;
  for (const Worker& survivor : survivors) {
    IMEX_CHECK_OK(survivor.line().send(note));
    IMEX_TRY(const Note waiting, survivor.line().receive());
    static_cast<void>(waiting);
  }
  const std::int64_t killed_ns = now_ns();
  victim.kill();
  std::int64_t last_ns = killed_ns;
  for (const Worker& survivor : survivors) {
    IMEX_TRY(const Note returned, survivor.line().receive());
    last_ns = std::max(last_ns, static_cast<std::int64_t>(returned.value));
  }
  return last_ns - killed_ns;
}

}  // namespace

Result<std::vector<Row>> measure_loss(const MemoryOptions& options) {
  IMEX_TRY(auto daemons, Daemons::prepare(options.imexd, 1));
  IMEX_CHECK_OK(daemons.start_all());
  const std::string channel = daemons.channel(0);
  // Ranks do not outnumber cores: one victim, the others survive.
  const unsigned survivor_count = std::max(1U, std::min(os::usable_cores(), 4U) - 1);
  std::vector<Worker> survivors;
  for (unsigned i = 0; i < survivor_count; ++i) {
    IMEX_TRY(auto worker, Worker::start([&](Line& line) { return survive(line, channel); }));
    IMEX_TRY(const Note open, worker.line().receive());
    static_cast<void>(open);
    survivors.push_back(std::move(worker));
  }
  std::vector<Row> rows;
  for (const std::size_t private_bytes : {std::size_t{0}, std::size_t{64} << 20U}) {
    Samples samples;
    for (std::size_t i = 0; i < options.scaled(kTrials); ++i) {
      IMEX_TRY(const std::int64_t sample, trial(channel, survivors, private_bytes));
      samples.push_back(sample);
    }
    Row row{.operation = "peer_killed_to_wait_returned",
            .placement = "one daemon",
            .ranks = survivor_count + 1,
            .bytes = private_bytes,
            .time = summarize(std::move(samples))};
    row.checked = true;
    row.mark = Mark{"p99 under 10 ms", row.time.p99_us, kP99MaxUs};
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace imex::bench
