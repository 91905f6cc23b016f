#include "model_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.hpp"
#include "inference/engine/rank_engine.hpp"
#include "inference/split/split_plan.hpp"

namespace imex::cli {
namespace {

Json range_json(const inference::Range& range) { return Json::array({range.begin, range.end}); }

/// "0-4": first and last.
std::string range_text(const Json& range) {
  return fmt::format("{}-{}", range[0].get<std::uint32_t>(), range[1].get<std::uint32_t>() - 1);
}

std::string size_text(const Json& bytes) { return format_size(bytes.get<std::uint64_t>()); }

}  // namespace

Result<Json> plan_json(const inference::ModelFile& model, const PlanOptions& options) {
  IMEX_TRY(const auto facts, inference::split_facts_of(model));
  IMEX_TRY(const auto plan,
           inference::plan_split(facts, options.tensor_parallel, options.invariant));
  const auto& parameters = model.parameters();
  const std::uint32_t context =
      options.context == 0 ? parameters.context : std::min(options.context, parameters.context);
  const auto limits = inference::EngineLimits::for_context(context);
  Json ranks = Json::array();
  for (std::uint32_t rank = 0; rank < plan.ranks(); ++rank) {
    const inference::RankShare& share = plan.shares[rank];
    const auto memory = inference::memory_of(parameters, plan, rank, limits);
    ranks.push_back({{"rank", rank},
                     {"query_heads", range_json(share.query_heads)},
                     {"kv_heads", range_json(share.kv_heads)},
                     {"feed_forward", range_json(share.feed_forward)},
                     {"vocabulary", range_json(share.vocabulary)},
                     {"weight_bytes", memory.weights},
                     {"cache_bytes", memory.cache},
                     {"buffer_bytes", memory.buffers},
                     {"window_bytes", memory.window},
                     {"total_bytes", memory.weights + memory.own()}});
  }
  return Json{{"tensor_parallel", plan.ranks()},
              {"tensor_parallel_max", inference::ranks_max(facts, options.invariant)},
              {"context", context},
              {"invariant", options.invariant},
              {"ranks", std::move(ranks)}};
}

std::string plan_table(const Json& plan) {
  Table table({"RANK", "QUERY_HEADS", "KV_HEADS", "FEED_FORWARD", "VOCABULARY", "WEIGHTS",
               "KV_CACHE", "BUFFERS", "EXCHANGE", "TOTAL"});
  for (const Json& rank : plan.at("ranks")) {
    table.add({fmt::format("{}", rank.at("rank").get<std::uint32_t>()),
               range_text(rank.at("query_heads")), range_text(rank.at("kv_heads")),
               range_text(rank.at("feed_forward")), range_text(rank.at("vocabulary")),
               size_text(rank.at("weight_bytes")), size_text(rank.at("cache_bytes")),
               size_text(rank.at("buffer_bytes")), size_text(rank.at("window_bytes")),
               size_text(rank.at("total_bytes"))});
  }
  return fmt::format("{}Split with room for {} tokens; --tensor-parallel may be 1 to {}.\n",
                     table.render(), plan.at("context").get<std::uint32_t>(),
                     plan.at("tensor_parallel_max").get<std::uint32_t>());
}

}  // namespace imex::cli
