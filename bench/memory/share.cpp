// Rounds of three kinds in turn (floor, one daemon, two daemons), so that whatever else the machine
// does meets all three alike.
#include <algorithm>

#include <fmt/format.h>

#include "bench/daemons.hpp"
#include "bench/memory.hpp"
#include "bench/worker.hpp"
#include "memory/exchange.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kShareRounds = 40;
constexpr std::size_t kShareSamplesPerRound = 50;
constexpr double kOneDaemonTimesMax = 3;
constexpr double kTwoDaemonsMaxUs = 250;

/// Receives descriptors, maps and unmaps; sends back how long after the time stamped into the
/// packet.
Result<void> receive_and_map(int socket) {
  for (;;) {
    std::int64_t sent_ns = 0;
    IMEX_TRY(const os::Packet packet,
             os::receive_packet(socket, std::as_writable_bytes(std::span(&sent_ns, 1)), true));
    if (packet.bytes == 0) return {};  // the sender is done
    if (packet.fds.size() != 1) return fail(Errc::kDataLoss, "the floor lost a descriptor");
    {
      IMEX_TRY(const auto mapping, os::Mapping::map(packet.fds.front().get(), kSharedBytes));
      static_cast<void>(mapping);
    }
    const std::int64_t taken_ns = now_ns() - sent_ns;
    IMEX_CHECK_OK(os::send_packet(socket, std::as_bytes(std::span(&taken_ns, 1))));
  }
}

/// On each note: sends a descriptor as often as asked, and the times back.
Result<void> send_descriptors(Line& line, int socket) {
  IMEX_TRY(const auto memory, os::make_memfd("floor", kSharedBytes));
  for (;;) {
    const auto note = line.receive();
    if (!note || note->value == 0) return {};
    Samples samples;
    while (samples.size() < note->value) {
      const std::int64_t now = now_ns();
      const int fd = memory.get();
      IMEX_CHECK_OK(os::send_packet(socket, std::as_bytes(std::span(&now, 1)), std::span(&fd, 1)));
      std::int64_t taken_ns = 0;
      IMEX_TRY(const os::Packet answer,
               os::receive_packet(socket, std::as_writable_bytes(std::span(&taken_ns, 1)), true));
      if (answer.bytes != sizeof taken_ns)
        return fail(Errc::kPeerLost, "receiver of the floor ended");
      samples.push_back(taken_ns);
    }
    IMEX_CHECK_OK(line.send_samples(samples));
  }
}

/// On each note: `value` exchanges, and the times back. First tells the size of its pages.
Result<void> exchange_on_demand(Line& line, const std::string& from, const std::string& to) {
  IMEX_TRY(auto exchange, Exchange::open(from, to));
  IMEX_TRY(const auto warm_up, exchange.run(20));
  static_cast<void>(warm_up);
  IMEX_CHECK_OK(line.send({.value = exchange.page_bytes(), .handle = {}}));
  for (;;) {
    const auto note = line.receive();
    if (!note || note->value == 0) return {};
    IMEX_TRY(const auto samples, exchange.run(note->value));
    IMEX_CHECK_OK(line.send_samples(samples));
  }
}

/// A worker and what it has measured so far.
struct Contender {
  Worker worker;
  std::string placement;
  Samples samples{};
  std::uint64_t page_bytes = 0;

  Result<void> round(std::size_t count) {
    IMEX_CHECK_OK(worker.line().send({.value = count, .handle = {}}));
    IMEX_TRY(const auto more, worker.line().receive_samples());
    samples.insert(samples.end(), more.begin(), more.end());
    return {};
  }
};

Result<Contender> contender(const std::string& from, const std::string& to, std::string placement) {
  IMEX_TRY(auto worker,
           Worker::start([&](Line& line) { return exchange_on_demand(line, from, to); }, 0));
  IMEX_TRY(const Note note, worker.line().receive());
  return Contender{std::move(worker), std::move(placement), {}, note.value};
}

Row row_of(const Contender& contender, const Summary& floor) {
  Row row{.operation = "export_import_map",
          .placement = contender.placement,
          .ranks = 2,
          .bytes = kSharedBytes,
          .time = summarize(contender.samples)};
  row.limit_us = floor.median_us;
  row.checked = true;
  row.pages = contender.page_bytes > os::page_bytes() ? "huge" : "small";
  if (contender.placement == "two daemons") {
    row.mark = Mark{"p50 under 250 us", row.time.median_us, kTwoDaemonsMaxUs};
  } else {
    row.mark = Mark{"p50 within 3 times of the floor", row.time.median_us / floor.median_us,
                    kOneDaemonTimesMax};
  }
  return row;
}

}  // namespace

Result<std::vector<Row>> measure_share(const MemoryOptions& options) {
  const unsigned cores = os::usable_cores();
  IMEX_TRY(auto ends, socket_pair());
  const int send_end = ends.first.get(), receive_end = ends.second.get();
  IMEX_TRY(auto receiver, Worker::start(
                              [&](Line&) {
                                ends.first.reset();
                                return receive_and_map(receive_end);
                              },
                              cores > 1 ? 1U : 0U));
  IMEX_TRY(auto sender,
           Worker::start([&](Line& line) { return send_descriptors(line, send_end); }, 0));
  ends = {};
  static_cast<void>(receiver);

  std::vector<Daemons> daemons;
  std::vector<std::string> channels = options.channels;
  if (channels.empty()) {
    IMEX_TRY(auto pair, Daemons::prepare(options.imexd, 2));
    daemons.push_back(std::move(pair));
    IMEX_CHECK_OK(daemons.front().start_all());
    channels = {daemons.front().channel(0), daemons.front().channel(1)};
  }
  std::vector<Contender> contenders;
  IMEX_TRY(auto one, contender(channels.front(), channels.front(), "one daemon"));
  contenders.push_back(std::move(one));
  if (channels.size() > 1) {
    IMEX_TRY(auto two, contender(channels[0], channels[1], "two daemons"));
    contenders.push_back(std::move(two));
  }

  Contender floor{std::move(sender), "floor"};
  for (std::size_t round = 0; round < options.scaled(kShareRounds); ++round) {
    IMEX_CHECK_OK(floor.round(kShareSamplesPerRound));
    for (auto& each : contenders) IMEX_CHECK_OK(each.round(kShareSamplesPerRound));
  }
  const Summary limit = summarize(floor.samples);
  std::vector<Row> rows{{.operation = "descriptor_hop_and_map",
                         .placement = "floor",
                         .ranks = 2,
                         .bytes = kSharedBytes,
                         .time = limit}};
  for (const auto& each : contenders) rows.push_back(row_of(each, limit));
  return rows;
}

}  // namespace imex::bench
