#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "base/version.hpp"
#include "bench/report.hpp"
#include "os/process.hpp"
#include "running_model.hpp"

namespace imex::cli {
namespace {

using inference::GenerateRequest;
using inference::RankReport;

/// What was measured of one number of ranks, or of threads of the peer; tokens per second.
struct Contender {
  std::string name;           ///< "imex", or the peer's program
  std::uint32_t workers = 1;  ///< ranks or threads
  std::vector<double> prefill{}, decode{};
  std::vector<double> limit{};  ///< of decoding: what reading the weights alone allows
  std::vector<double> exchange_p50{}, exchange_p99{}, exchange_share{}, imbalance{};
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// One model, started once and asked again and again.
class OwnRun {
 public:
  static Result<OwnRun> start(const Global& global, const ModelRunOptions& options,
                              const BenchGenerateOptions& sizes) {
    OwnRun run;
    IMEX_TRY(run.model_, RunningModel::open(global, options));
    IMEX_CHECK_OK(run.model_->start(std::max(sizes.prefill, sizes.decode) + 2));
    std::mt19937 random(1);
    const std::uint32_t vocabulary = run.model_->file().parameters().vocabulary;
    for (std::uint32_t i = 0; i < sizes.prefill; ++i) {
      run.prompt_.push_back(static_cast<std::uint32_t>(random()) % vocabulary);
    }
    return run;
  }

  Result<void> measure(std::uint32_t decode, Contender& into) {
    IMEX_TRY(const auto filled, ask(prompt_, 1));
    into.prefill.push_back(static_cast<double>(prompt_.size()) / filled.prefill_seconds);
    IMEX_TRY(const auto decoded, ask(std::span(prompt_).first(1), decode + 1));
    into.decode.push_back(static_cast<double>(decode) / decoded.decode_seconds);
    double read = 0;
    for (const RankReport& report : model_->generator().reports()) {
      read = std::max(read, static_cast<double>(report.times.read) * 1e-9);
    }
    if (read > 0) into.limit.push_back(1 / read);
    note_exchanges(decoded, into);
    return {};
  }

  [[nodiscard]] const RunningModel& model() const noexcept { return *model_; }

 private:
  Result<inference::GenerateResult> ask(std::span<const std::uint32_t> prompt,
                                        std::uint32_t tokens) {
    GenerateRequest request;
    request.prompt = prompt;
    request.max_tokens = tokens;
    request.sampling.temperature = 0;
    request.measures_reading = tokens > 1;
    return model_->generator().generate(request,
                                        [](const inference::GeneratedToken&) { return true; });
  }

  void note_exchanges(const inference::GenerateResult& decoded, Contender& into) {
    const auto reports = model_->generator().reports();
    const auto& times = reports.front().times;
    if (times.exchanges.count() == 0) return;
    double imbalance = 0;
    for (const RankReport& report : reports) {
      imbalance = std::max(imbalance, static_cast<double>(report.times.imbalances.sum()));
    }
    into.exchange_p50.push_back(static_cast<double>(times.exchanges.quantile(0.5)) * 1e-3);
    into.exchange_p99.push_back(static_cast<double>(times.exchanges.quantile(0.99)) * 1e-3);
    const double step_ns = (decoded.decode_seconds + decoded.prefill_seconds) * 1e9;
    into.exchange_share.push_back(static_cast<double>(times.exchanges.sum()) / step_ns);
    into.imbalance.push_back(imbalance / step_ns);
  }

  std::unique_ptr<RunningModel> model_;
  std::vector<std::uint32_t> prompt_;
};

/// Runs llama.cpp's own benchmark once and takes its two figures.
Result<void> measure_peer(const BenchGenerateOptions& options, const std::string& model_path,
                          Contender& into) {
  const auto number = [](std::uint32_t value) { return fmt::format("{}", value); };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(system_error(errno, "make a pipe"));
  const os::UniqueFd from(ends[0]);
  os::UniqueFd to(ends[1]);
  const os::UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  IMEX_TRY(auto child,
           os::Child::start({.arguments = {options.llama_bench, "-m", model_path, "-t",
                                           number(into.workers), "-p", number(options.prefill),
                                           "-n", number(options.decode), "-r", "1", "-o", "json"},
                             .environment = {},
                             .stdout_fd = to.get(),
                             .stderr_fd = nowhere.get()}));
  to.reset();
  std::string text;
  std::array<char, 4096> piece;
  // Ctrl-C reaches the child as well, which ends this.
  for (ssize_t read = 0; (read = ::read(from.get(), piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(read));
  }
  const int status = child.wait(std::chrono::seconds(10)).value_or(-1);
  const auto rows = Json::parse(text, nullptr, false);
  if (status != 0 || !rows.is_array() || rows.size() != 2) {
    return fail(
        Errc::kUnavailable,
        fmt::format("'{}' ended with status {} and no figures", options.llama_bench, status),
        "--llama-bench takes the path of llama.cpp's llama-bench");
  }
  for (const Json& row : rows) {
    const double speed = row.value("avg_ts", 0.0);
    (row.value("n_gen", 0) == 0 ? into.prefill : into.decode).push_back(speed);
  }
  return {};
}

Json row_json(const Contender& one, const Contender* peer, const BenchGenerateOptions& options,
              const RunningModel& model) {
  const double decode = median(one.decode), prefill = median(one.prefill);
  Json json{{"operation", "generate"},
            {"program", one.name},
            {"model", model.name()},
            {"ranks", one.workers},
            {"prefill_tokens", options.prefill},
            {"decode_tokens", options.decode},
            {"prefill_tokens_per_second", prefill},
            {"tokens_per_second", decode},
            {"n", one.decode.size()}};
  if (!one.limit.empty()) {
    const double limit = median(one.limit);
    json["read_limit_tokens_per_second"] = limit;
    json["share_of_read_limit"] = decode / limit;
  }
  if (!one.exchange_p50.empty()) {
    json["exchange_us"] = {{"p50", median(one.exchange_p50)}, {"p99", median(one.exchange_p99)}};
    json["exchange_share"] = median(one.exchange_share);
    json["imbalance_share"] = median(one.imbalance);
  }
  if (peer != nullptr) {
    json["prefill_times_peer"] = prefill / median(peer->prefill);
    json["decode_times_peer"] = decode / median(peer->decode);
  }
  json["cpu"] = bench::cpu_name();
  json["commit"] = build_info().git;
  return json;
}

std::string cell(const Json& row, const char* key, const char* format) {
  return row.contains(key) ? fmt::format(fmt::runtime(format), row[key].get<double>())
                           : std::string("-");
}

Table table_of(const std::vector<Json>& rows) {
  Table table({"PROGRAM", "RANKS", "PREFILL_TOK_S", "DECODE_TOK_S", "LIMIT_TOK_S", "OF_LIMIT",
               "PREFILL_X_PEER", "DECODE_X_PEER", "EXCHANGE_P50_US", "EXCHANGE_SHARE",
               "IMBALANCE"});
  for (const Json& row : rows) {
    const bool exchanges = row.contains("exchange_us");
    table.add({row["program"], fmt::format("{}", row["ranks"].get<std::uint32_t>()),
               cell(row, "prefill_tokens_per_second", "{:.1f}"),
               cell(row, "tokens_per_second", "{:.1f}"),
               cell(row, "read_limit_tokens_per_second", "{:.1f}"),
               cell(row, "share_of_read_limit", "{:.2f}"),
               cell(row, "prefill_times_peer", "{:.2f}"), cell(row, "decode_times_peer", "{:.2f}"),
               exchanges ? cell(row["exchange_us"], "p50", "{:.2f}") : "-",
               cell(row, "exchange_share", "{:.3f}"), cell(row, "imbalance_share", "{:.3f}")});
  }
  return table;
}

/// The peer's best number of threads, up to as many as there are ranks.
const Contender* peer_of(const std::vector<Contender>& peers, std::uint32_t ranks) {
  const Contender* found = nullptr;
  for (const Contender& peer : peers) {
    if (peer.workers > ranks || peer.decode.empty()) continue;
    if (found == nullptr || median(peer.decode) > median(found->decode)) found = &peer;
  }
  return found;
}

}  // namespace

Result<void> bench_generate(const Global& global, const BenchGenerateOptions& options) {
  std::vector<ModelRunOptions> run_options;  // outlive the runs
  run_options.reserve(options.ranks.size());
  std::vector<OwnRun> runs;
  std::vector<Contender> own, peers;
  catch_interrupts();
  for (const std::uint32_t ranks : options.ranks) {
    run_options.push_back(options.run);
    run_options.back().tensor_parallel = fmt::format("{}", ranks);
    IMEX_TRY(auto run, OwnRun::start(global, run_options.back(), options));
    runs.push_back(std::move(run));
    own.push_back(Contender{.name = "imex", .workers = ranks});
    if (!options.llama_bench.empty()) {
      const auto name = std::filesystem::path(options.llama_bench).filename();
      peers.push_back(Contender{.name = name, .workers = ranks});
    }
  }
  {
    Progress progress(options.rounds, global.quiet);
    // Others use this machine, too: what is compared takes turns.
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
      progress.step(fmt::format("round {}", round + 1));
      for (std::size_t i = 0; i < runs.size(); ++i) {
        IMEX_CHECK_OK(runs[i].measure(options.decode, own[i]));
        if (i < peers.size()) {
          IMEX_CHECK_OK(measure_peer(options, runs[i].model().path(), peers[i]));
        }
      }
    }
  }
  std::vector<Json> rows;
  for (std::size_t i = 0; i < own.size(); ++i) {
    rows.push_back(row_json(own[i], peer_of(peers, own[i].workers), options, runs[i].model()));
  }
  for (std::size_t i = 0; i < peers.size(); ++i) {
    rows.push_back(row_json(peers[i], nullptr, options, runs[i].model()));
  }
  return print(render_list(global.format, "results", rows, table_of(rows)));
}

}  // namespace imex::cli
