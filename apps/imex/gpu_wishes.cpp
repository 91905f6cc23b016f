#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "tenant_commands.hpp"

namespace imex::cli {
namespace {

/// The word for a GPU that is to be in no partition.
constexpr std::string_view kNowhere = "none";
constexpr std::int64_t kGpuIndexMax = 1023;

Result<GpuWish> parse_wish(const std::string& word, const std::optional<std::string>& partition) {
  const auto at = word.find('=');
  const auto index = parse_integer(word.substr(0, at), 0, kGpuIndexMax);
  if (!index) {
    return fail(Errc::kInvalidArgument, fmt::format("--gpu '{}': no index of a GPU", word),
                "want INDEX, INDEX=PARTITION or INDEX=none, for example 2=training");
  }
  GpuWish wish{static_cast<std::uint32_t>(*index), std::nullopt};
  if (at != std::string::npos) {
    const std::string where = word.substr(at + 1);
    if (where.empty()) {
      return fail(Errc::kInvalidArgument, fmt::format("--gpu '{}': no partition behind '='", word),
                  "name one, or write none");
    }
    if (where != kNowhere) wish.partition = where;
  } else if (partition) {
    wish.partition = partition;
  } else {
    return fail(Errc::kInvalidArgument, fmt::format("--gpu {}: in which partition?", word),
                "add --partition PARTITION, or write INDEX=PARTITION");
  }
  return wish;
}

Result<std::vector<GpuWish>> listed_wishes(const InstanceOptions& options) {
  std::vector<GpuWish> wishes;
  for (const std::string& word : options.gpu) {
    IMEX_TRY(GpuWish wish, parse_wish(word, options.partition));
    const bool twice = std::ranges::any_of(
        wishes, [&](const GpuWish& each) { return each.device_instance == wish.device_instance; });
    if (twice) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("--gpu: GPU {} is named twice", wish.device_instance));
    }
    wishes.push_back(std::move(wish));
  }
  std::ranges::sort(wishes, {}, &GpuWish::device_instance);
  return wishes;
}

}  // namespace

Result<std::optional<std::vector<GpuWish>>> gpu_wishes(const InstanceOptions& options,
                                                       std::optional<std::uint32_t> gpus_of_type) {
  using Wishes = std::optional<std::vector<GpuWish>>;
  if (!options.gpu.empty()) {
    if (options.gpus) {
      return fail(Errc::kInvalidArgument, "--gpus and --gpu exclude each other",
                  "--gpus N takes the first N GPUs, --gpu names them one by one");
    }
    IMEX_TRY(auto listed, listed_wishes(options));
    return Wishes(std::move(listed));
  }
  if (!options.gpus && !options.partition) return Wishes();
  const std::uint32_t count = options.gpus.value_or(gpus_of_type.value_or(0));
  if (!options.gpus && count == 0) {
    return fail(Errc::kInvalidArgument, "--partition: of how many GPUs is not known here",
                "say it with --gpus N or --gpu INDEX");
  }
  if (count != 0 && !options.partition) {
    return fail(Errc::kInvalidArgument, fmt::format("--gpus {}: in which partition?", count),
                "add --partition PARTITION; without --gpus the VPC's default decides");
  }
  std::vector<GpuWish> wishes;
  for (std::uint32_t i = 0; i != count; ++i) wishes.push_back({i, options.partition});
  return Wishes(std::move(wishes));
}

}  // namespace imex::cli
