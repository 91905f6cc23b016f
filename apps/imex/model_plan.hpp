/// What each rank of a split model would hold: computed from sizes alone, before anything is
/// loaded.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "inference/model/model_file.hpp"
#include "output.hpp"

namespace imex::cli {

struct PlanOptions {
  std::uint32_t tensor_parallel = 1;
  std::uint32_t context = 0;  ///< tokens that the cache has room for; 0: all that the model can
  bool invariant = false;
};

/// {tensor_parallel, tensor_parallel_max, context, invariant, ranks: [{rank, query_heads: [first,
/// end), ..., weight_bytes, cache_bytes, buffer_bytes, window_bytes, total_bytes}]}.
/// Errors: those of inference::plan_split() and split_facts_of().
[[nodiscard]] Result<Json> plan_json(const inference::ModelFile& model, const PlanOptions& options);

/// The ranks of plan_json() as a table, and one line on what else is possible.
[[nodiscard]] std::string plan_table(const Json& plan);

}  // namespace imex::cli
