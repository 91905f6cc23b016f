#include "memory/exchange.hpp"

#include <cstring>

#include "bench/worker.hpp"

namespace imex::bench {

Result<Exchange> Exchange::open(const std::string& exporter_channel,
                                const std::string& importer_channel, std::size_t bytes) {
  SessionOptions options;
  options.channel = exporter_channel;
  IMEX_TRY(auto exporter, Session::open(options));
  options.channel = importer_channel;
  IMEX_TRY(auto importer, Session::open(options));
  IMEX_TRY(auto memory, Allocation::create(bytes));
  return Exchange(std::move(exporter), std::move(importer), std::move(memory));
}

Result<std::int64_t> Exchange::run() {
  ++round_;
  std::memcpy(memory_.data() + memory_.size() - sizeof round_, &round_, sizeof round_);
  const std::int64_t begin = now_ns();
  IMEX_TRY(auto exported, exporter_.export_memory(memory_));
  IMEX_TRY(auto imported, importer_.import_memory(exported.handle()));
  const std::int64_t end = now_ns();

  std::uint64_t seen = 0;
  std::memcpy(&seen, imported.data() + imported.size() - sizeof seen, sizeof seen);
  if (imported.size() != memory_.size() || seen != round_) {
    return fail(Errc::kDataLoss, "the mapping does not show what was exported");
  }
  return end - begin;
}

Result<Samples> Exchange::run(std::size_t count) {
  Samples samples;
  samples.reserve(count);
  while (samples.size() < count) {
    IMEX_TRY(const std::int64_t sample, run());
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace imex::bench
