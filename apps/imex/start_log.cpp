#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.hpp"
#include "inference/matrix/product.hpp"
#include "inference/operators/attention.hpp"
#include "os/process.hpp"
#include "running_model.hpp"

namespace imex::cli {
namespace {

using inference::PackedImage;
using inference::RankReport;
using inference::RankShare;

/// "0,1,4"; at most those of one machine.
std::string core_list() {
  std::vector<unsigned> cores;
  const os::CoreMask mask = os::core_mask();
  for (unsigned core = 0; core < mask.size() * 64; ++core) {
    if ((mask[core / 64] >> (core % 64) & 1U) != 0) cores.push_back(core);
  }
  return fmt::format("{}", fmt::join(cores, ","));
}

std::string_view origin_name(PackedImage::Origin origin) {
  switch (origin) {
    case PackedImage::Origin::kNone:
      return "mapped as it is";
    case PackedImage::Origin::kCache:
      return "hit";
    case PackedImage::Origin::kBuilt:
      return "miss, packed and kept";
    case PackedImage::Origin::kMemory:
      return "miss, packed in memory";
  }
  return "";
}

std::string share_text(const RankShare& share) {
  return fmt::format(
      "query heads {}-{}, key-value heads {}-{}, feed-forward {}-{}, vocabulary {}-{}",
      share.query_heads.begin, share.query_heads.end - 1, share.kv_heads.begin,
      share.kv_heads.end - 1, share.feed_forward.begin, share.feed_forward.end - 1,
      share.vocabulary.begin, share.vocabulary.end - 1);
}

/// The four facts, with the names that TensorRT-LLM prints beside ours.
void log_facts(const RunningModel& model, const std::vector<RankReport>& reports) {
  log::Logger& log = model.log();
  const std::uint32_t ranks = model.plan().ranks();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    log.info("rank is ready", {{"world_size", ranks},
                               {"rank", rank},
                               {"cores", core_list()},
                               {"kernels", inference::kernel_target()},
                               {"seconds", reports[rank].loading_seconds}});
  }
  const bool daemons = !model.options().channels.empty();
  log.info("topology",
           {{"topology", "shared host memory"}, {"meeting_p50_ns", reports.front().meeting_ns}});
  log.info("communication",
           {{"communication", daemons ? "imex, introduced by node daemons" : "imex, met directly"},
            {"compat", "UBER_IMEX"}});
  const std::uint64_t bytes = std::uint64_t{model.file().parameters().hidden} * sizeof(float);
  log.info("exchange inside a layer",
           {{"allreduce_strategy", ranks == 1 ? "none" : "one-shot"},
            {"compat", "CUSTOM_AR_KERNEL"},
            {"decode_bytes", bytes},
            {"prefill_bytes", bytes * model.limits().rows},
            {"order", model.plan().invariant ? "tree over fixed leaves" : "ascending ranks"},
            {"why", "each rank reads its peers' partial sums where they were written"}});
}

void log_evidence(const RunningModel& model) {
  log::Logger& log = model.log();
  const auto& p = model.file().parameters();
  log.info("model", {{"name", model.name()},
                     {"format", model.file().format()},
                     {"architecture", p.architecture->name},
                     {"bytes", model.file().weight_bytes()},
                     {"layers", p.layer_count()},
                     {"query_heads", p.query_heads},
                     {"kv_heads", p.kv_heads}});
  const auto memory = model.memory_per_rank();
  for (std::uint32_t rank = 0; rank < model.plan().ranks(); ++rank) {
    log.info(
        "split",
        {{"rank", rank}, {"part", share_text(model.plan().shares[rank])}, {"bytes", memory[rank]}});
  }
  const PackedImage& image = model.image();
  const double rate = model.packing_seconds() > 0
                          ? static_cast<double>(image.size()) / model.packing_seconds() * 1e-9
                          : 0;
  log.info("weights",
           {{"cache", origin_name(image.origin())},
            {"bytes", image.size()},
            {"seconds", model.packing_seconds()},
            {"gb_per_s", rate},
            {"limit", image.origin() == PackedImage::Origin::kCache ? "reading and checking memory"
                                                                    : "repacking"}});
  const std::uint32_t context = model.limits().context;
  log.info("KV cache", {{"blocks", inference::KvLayout::blocks_for(context)},
                        {"block_tokens", inference::KvLayout::kBlockTokens},
                        {"tokens", context},
                        {"sequences", model.limits().sequences}});
  log.info("ready", {{"seconds", model.load_seconds()}});
}

}  // namespace

void log_start(const RunningModel& model, const std::vector<RankReport>& reports) {
  log_facts(model, reports);
  log_evidence(model);
}

}  // namespace imex::cli
