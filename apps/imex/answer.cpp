#include "answer.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "base/units.hpp"

namespace imex::cli {
namespace {

using inference::GenerateRequest;
using inference::GenerateResult;
using inference::RankReport;

/// Tokens per second, and the share of what the ranks could if they only read their weights.
struct Speed {
  double prefill = 0, decode = 0;
  std::optional<double> share;
};

Speed speed_of(const GenerateResult& result, const std::vector<RankReport>& reports) {
  Speed speed;
  if (result.prefill_seconds > 0) {
    speed.prefill =
        static_cast<double>(result.prompt_tokens - result.cached_tokens) / result.prefill_seconds;
  }
  if (result.tokens < 2 || result.decode_seconds <= 0) return speed;
  speed.decode = static_cast<double>(result.tokens - 1) / result.decode_seconds;
  double limit = 0;  // seconds per token of the slowest rank, if it only read its weights
  for (const RankReport& report : reports) {
    limit = std::max(limit, static_cast<double>(report.times.read) * 1e-9);
  }
  if (limit > 0) speed.share = speed.decode * limit;
  return speed;
}

/// The exchanges of the rank that leads; all take part in the same ones.
struct Exchanges {
  std::uint64_t count = 0;
  double p50 = 0, p99 = 0, imbalance_p50 = 0, imbalance_p99 = 0;  // microseconds
};

Exchanges exchanges_of(const std::vector<RankReport>& reports) {
  const auto& times = reports.front().times;
  const auto micro = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
  // Each rank waits for the others in turn: the imbalance of a step is what the one waits that
  // waits longest.
  Exchanges found;
  found.count = times.exchanges.count();
  found.p50 = micro(times.exchanges.quantile(0.5));
  found.p99 = micro(times.exchanges.quantile(0.99));
  for (const RankReport& report : reports) {
    found.imbalance_p50 =
        std::max(found.imbalance_p50, micro(report.times.imbalances.quantile(0.5)));
    found.imbalance_p99 =
        std::max(found.imbalance_p99, micro(report.times.imbalances.quantile(0.99)));
  }
  return found;
}

Json profile_json(const std::vector<RankReport>& reports) {
  Json rows = Json::array();
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const auto& times = reports[rank].times;
    const double steps = static_cast<double>(std::max<std::uint64_t>(1, times.steps));
    const auto per_step = [&](std::uint64_t ns) { return static_cast<double>(ns) * 1e-3 / steps; };
    rows.push_back({{"rank", rank},
                    {"steps", times.steps},
                    {"attention_us", per_step(times.attention)},
                    {"feed_forward_us", per_step(times.feed_forward)},
                    {"head_us", per_step(times.head)},
                    {"exchange_us", per_step(times.exchange)},
                    {"sample_us", per_step(times.draw)}});
  }
  return rows;
}

std::string profile_text(const std::vector<RankReport>& reports) {
  Table table(
      {"RANK", "STEPS", "ATTENTION_US", "FEED_FORWARD_US", "HEAD_US", "EXCHANGE_US", "SAMPLE_US"});
  for (const Json& row : profile_json(reports)) {
    const auto number = [&](const char* key) {
      return fmt::format("{:.1f}", row[key].get<double>());
    };
    table.add({fmt::format("{}", row["rank"].get<std::size_t>()),
               fmt::format("{}", row["steps"].get<std::uint64_t>()), number("attention_us"),
               number("feed_forward_us"), number("head_us"), number("exchange_us"),
               number("sample_us")});
  }
  return table.render();
}

Json ranks_json(const std::vector<RankReport>& reports) {
  Json rows = Json::array();
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    rows.push_back({{"rank", rank},
                    {"gpu_uid", nullptr},
                    {"tray", nullptr},
                    {"domain_uuid", nullptr},
                    {"clique_id", nullptr},
                    {"private_bytes", reports[rank].private_bytes}});
  }
  return rows;
}

}  // namespace

Answer::Answer(const Global& global, const GenerateOptions& options, RunningModel& model,
               std::chrono::steady_clock::time_point begun)
    : global_(global),
      options_(options),
      model_(model),
      begun_(begun),
      stream_(model.tokenizer()),
      stop_(options.stop) {}

Result<void> Answer::run(const std::vector<std::uint32_t>& prompt, std::uint64_t seed,
                         bool reuses_cache) {
  prompt_ = prompt;
  seed_ = seed;
  GenerateRequest request;
  request.prompt = prompt_;
  request.max_tokens = options_.max_tokens;
  request.stop_ids = model_.file().parameters().stop_tokens;
  request.sampling = options_.sampling;
  request.sampling.seed = seed;
  request.measures_reading = !global_.quiet;
  request.reuses_cache = reuses_cache;
  auto result = model_.generator().generate(
      request, [&](const inference::GeneratedToken& token) { return take(token.id); });
  if (!stop_.found()) emit(stop_.finish(stream_.finish()));
  const bool streamed = global_.format == Format::kTable;
  if (streamed && (result || !text_.empty())) IMEX_CHECK_OK(print("\n"));
  if (!result) return fail(std::move(result).error());
  result_ = *result;
  if (stop_.found()) result_.reason = inference::FinishReason::kStop;
  reports_ = model_.generator().reports();
  return {};
}

bool Answer::take(std::uint32_t id) {
  if (stop_when_ && stop_when_()) return false;
  if (ids_.empty()) first_token_ = std::chrono::steady_clock::now() - begun_;
  ids_.push_back(id);
  const auto& stops = model_.file().parameters().stop_tokens;
  if (std::ranges::find(stops, id) != stops.end()) return true;
  const auto text = stream_.append(id);
  if (text) emit(stop_.add(*text));
  return text && !stop_.found();
}

void Answer::emit(const std::string& text) {
  text_ += text;
  if (global_.format != Format::kTable || text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Answer::summarise() const {
  const Speed speed = speed_of(result_, reports_);
  const Exchanges exchanges = exchanges_of(reports_);
  const std::uint32_t ranks = model_.plan().ranks();
  fmt::print(stderr,
             "{} over {} {}, {} weights; first token after {:.0f} ms, of which {:.0f} ms loading\n",
             model_.name(), ranks, ranks == 1 ? "rank" : "ranks",
             format_size(model_.file().weight_bytes()),
             std::chrono::duration<double, std::milli>(first_token_).count(),
             model_.load_seconds() * 1e3);
  fmt::print(stderr, "prefill {:.1f} tokens/s ({} tokens), decode {:.1f} tokens/s ({} tokens){}\n",
             speed.prefill, result_.prompt_tokens, speed.decode, result_.tokens,
             speed.share ? fmt::format(", {:.0f} % of the read limit", *speed.share * 100) : "");
  if (ranks > 1) {
    fmt::print(
        stderr,
        "{} exchanges: p50 {:.2f} us, p99 {:.2f} us; waiting for the last rank p50 {:.2f} us\n",
        exchanges.count, exchanges.p50, exchanges.p99, exchanges.imbalance_p50);
  }
  if (options_.profile) fmt::print(stderr, "{}", profile_text(reports_));
}

Json Answer::json() const {
  const Speed speed = speed_of(result_, reports_);
  const Exchanges exchanges = exchanges_of(reports_);
  Json json{
      {"model", model_.name()},
      {"tensor_parallel", model_.plan().ranks()},
      {"prompt_ids", prompt_},
      {"ids", ids_},
      {"text", text_},
      {"finish_reason", inference::finish_reason_name(result_.reason)},
      {"load_seconds", model_.load_seconds()},
      {"time_to_first_token_ms", std::chrono::duration<double, std::milli>(first_token_).count()},
      {"prefill_tokens_per_second", speed.prefill},
      {"tokens_per_second", speed.decode},
      {"share_of_read_limit", speed.share ? Json(*speed.share) : Json(nullptr)},
      {"memory_bytes_per_rank", model_.memory_per_rank()},
      {"exchange_us",
       {{"count", exchanges.count},
        {"p50", exchanges.p50},
        {"p99", exchanges.p99},
        {"algorithm", model_.plan().invariant ? "one-shot-tree" : "one-shot"}}},
      {"imbalance_us", {{"p50", exchanges.imbalance_p50}, {"p99", exchanges.imbalance_p99}}},
      {"ranks", ranks_json(reports_)},
      {"logical_partition_id", nullptr},
      {"seed", seed_}};
  if (options_.profile) json["profile"] = profile_json(reports_);
  return json;
}

Result<void> print_answer(const Global& global, const Answer& answer) {
  return print(answer.json().dump(global.format == Format::kJson ? 2 : -1, ' ', false,
                                  Json::error_handler_t::replace));
}

}  // namespace imex::cli
