// Two daemons that know nothing of each other: one empty, one with 256 processes that hold 10,000
// handles. The same exchange runs through both in turns.
#include <fmt/format.h>

#include "bench/daemons.hpp"
#include "bench/memory.hpp"
#include "bench/worker.hpp"
#include "memory/exchange.hpp"
#include "os/memory.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kProcesses = 256, kHandles = 10'000;
constexpr std::size_t kLoadRounds = 20, kLoadSamplesPerRound = 50;
constexpr double kLoadTimesMax = 2;

/// Holds `count` exports of one allocation until told to end. The daemon keeps the two descriptors
/// of an allocation once, however often it is exported: with two for each of 10,000 handles it
/// would need more than the 20,000 that containers commonly allow.
Result<void> hold_exports(Line& line, const std::string& channel, std::size_t count) {
  IMEX_TRY(auto session, Session::open({.channel = channel}));
  IMEX_TRY(auto memory, Allocation::create(os::page_bytes()));
  std::vector<Export> exports;
  while (exports.size() < count) {
    IMEX_TRY(auto exported, session.export_memory(memory));
    exports.push_back(std::move(exported));
  }
  IMEX_CHECK_OK(line.send({.value = exports.size(), .handle = {}}));
  for (;;) {  // the line's wait ends after a minute; the load stays as long as its parent
    const auto note = line.receive();
    if (note || note.error().code != Errc::kDeadlineExceeded) return {};
  }
}

Result<std::vector<Worker>> load(const std::string& channel, std::size_t left) {
  std::vector<Worker> workers;
  for (std::size_t process = 0; process < kProcesses; ++process) {
    const std::size_t count = left / (kProcesses - process);
    left -= count;
    IMEX_TRY(auto worker,
             Worker::start([&](Line& line) { return hold_exports(line, channel, count); }));
    workers.push_back(std::move(worker));
  }
  for (const Worker& worker : workers) IMEX_CHECK_OK(worker.line().receive());
  return workers;
}

/// Rounds through both daemons in turns: sends the samples of the empty one, then of the loaded
/// one.
Result<void> compare(Line& line, const std::string& empty, const std::string& loaded,
                     std::size_t rounds) {
  IMEX_TRY(auto through_empty, Exchange::open(empty, empty));
  IMEX_TRY(auto through_loaded, Exchange::open(loaded, loaded));
  for (std::size_t round = 0; round < rounds; ++round) {
    IMEX_TRY(const auto first, through_empty.run(kLoadSamplesPerRound));
    IMEX_CHECK_OK(line.send_samples(first));
    IMEX_TRY(const auto second, through_loaded.run(kLoadSamplesPerRound));
    IMEX_CHECK_OK(line.send_samples(second));
  }
  return {};
}

}  // namespace

Result<std::vector<Row>> measure_load(const MemoryOptions& options) {
  IMEX_TRY(auto empty, Daemons::prepare(options.imexd, 1));
  IMEX_CHECK_OK(empty.start_all());
  IMEX_TRY(auto loaded, Daemons::prepare(options.imexd, 1));
  IMEX_CHECK_OK(loaded.start_all());
  IMEX_TRY(const auto holders, load(loaded.channel(0), kHandles));

  const std::size_t rounds = options.scaled(kLoadRounds);
  const std::string near = empty.channel(0), far = loaded.channel(0);
  IMEX_TRY(auto worker,
           Worker::start([&](Line& line) { return compare(line, near, far, rounds); }, 0));
  Samples of_empty, of_loaded;
  for (std::size_t round = 0; round < rounds; ++round) {
    IMEX_TRY(const auto first, worker.line().receive_samples());
    of_empty.insert(of_empty.end(), first.begin(), first.end());
    IMEX_TRY(const auto second, worker.line().receive_samples());
    of_loaded.insert(of_loaded.end(), second.begin(), second.end());
  }
  const Summary limit = summarize(std::move(of_empty));
  Row row{.operation = "export_import_map",
          .placement = fmt::format("{} processes, {} handles", kProcesses, kHandles),
          .ranks = kProcesses,
          .bytes = kSharedBytes,
          .time = summarize(std::move(of_loaded))};
  row.limit_us = limit.median_us;
  row.checked = true;
  row.figures = {{"handles", static_cast<double>(kHandles)}};
  row.mark = Mark{"p50 within 2 times of the empty daemon", row.time.median_us / limit.median_us,
                  kLoadTimesMax};
  return std::vector<Row>{{.operation = "export_import_map",
                           .placement = "empty daemon",
                           .ranks = 2,
                           .bytes = kSharedBytes,
                           .time = limit},
                          row};
}

}  // namespace imex::bench
