#include "inference/settings/run_settings.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "value_source.hpp"
#include "variable_names.hpp"

namespace imex::inference {

namespace {

constexpr std::uint32_t kRanksMax = 1024;
constexpr std::uint32_t kTokensMax = 1U << 30U;

constexpr SettingNames kModel{"--model", "IMEX_MODEL_PATH", "NIM_MODEL_PATH"};
constexpr SettingNames kProfile{"", "IMEX_MODEL_PROFILE", "NIM_MODEL_PROFILE"};
constexpr SettingNames kTensorParallel{"--tensor-parallel", "IMEX_TENSOR_PARALLEL_SIZE",
                                       "NIM_TENSOR_PARALLEL_SIZE"};
constexpr SettingNames kMaxModelLen{"--max-model-len", "IMEX_MAX_MODEL_LEN", "NIM_MAX_MODEL_LEN"};
constexpr SettingNames kCacheFolder{"", "IMEX_CACHE_DIR", "NIM_CACHE_PATH"};
constexpr SettingNames kLogLevel{"--log-level", "IMEX_LOG_LEVEL", "NIM_LOG_LEVEL"};
constexpr SettingNames kJsonLogs{"", "IMEX_JSONL_LOGGING", "NIM_JSONL_LOGGING"};
constexpr SettingNames kDownloadDisabled{"", "IMEX_DISABLE_MODEL_DOWNLOAD",
                                         "NIM_DISABLE_MODEL_DOWNLOAD"};
constexpr SettingNames kPipeline{"", "IMEX_PIPELINE_PARALLEL_SIZE", "NIM_PIPELINE_PARALLEL_SIZE"};
constexpr SettingNames kNodes{"", "IMEX_NUM_COMPUTE_NODES", "NIM_NUM_COMPUTE_NODES"};

/// The address itself is not shown: it may hold a password.
void check_model(const Setting<std::string>& model, ValueSource& source) {
  const std::size_t scheme = model.value.find("://");
  if (scheme == std::string::npos || scheme > 16) return;
  source.refuse(Errc::kUnsupported,
                fmt::format("{}: a path on this machine or a name of imex model list wanted, an "
                            "address of {}:// found; download it first",
                            model.name, model.value.substr(0, scheme)));
}

void refuse_above_one(const SettingNames& names, std::string_view what, ValueSource& source) {
  Setting<std::uint32_t> count{1};
  source.read(count, names, UINT32_MAX);
  if (count.value == 1) return;
  source.refuse(Errc::kUnsupported,
                fmt::format("{}: 1 wanted, {} found; {} cannot be split over yet, raise the "
                            "tensor-parallel size instead",
                            count.name, count.value, what));
}

/// The N of a part "tpN" or "ppN".
std::optional<std::uint32_t> number_behind(std::string_view part, std::string_view prefix) {
  if (!part.starts_with(prefix)) return std::nullopt;
  part.remove_prefix(prefix.size());
  std::uint32_t value = 0;
  const auto end = std::from_chars(part.data(), part.data() + part.size(), value);
  if (end.ec != std::errc{} || end.ptr != part.data() + part.size()) return std::nullopt;
  return value;
}

/// Backend, precision, tpN and ppN joined by dashes: only the last two mean something here.
void read_profile(RunSettings& settings, ValueSource& source) {
  source.read(settings.profile, kProfile);
  const Setting<std::string>& profile = settings.profile;
  const bool is_id = profile.value.size() == 64 &&
                     profile.value.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (is_id) {
    return source.refuse(profile, "a profile by name, such as tp2 (ids are NVIDIA's own)",
                         Errc::kUnsupported);
  }
  for (std::string_view rest = profile.value; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('-'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (const auto ranks = number_behind(part, "tp")) {
      if (*ranks < 1 || *ranks > kRanksMax) {
        return source.refuse(profile, fmt::format("tp1 to tp{}", kRanksMax));
      }
      settings.tensor_parallel = {*ranks, profile.source, profile.name};
    }
    const auto stages = number_behind(part, "pp");
    if (stages && *stages != 1) {
      return source.refuse(profile, "a profile of one pipeline stage", Errc::kUnsupported);
    }
  }
}

std::vector<std::string> warnings_about(const NamedValues& environment) {
  std::set<std::string> unknown;
  for (const auto& [name, value] : environment) {
    const bool ours = name.starts_with("IMEX_") || name.starts_with("NIM_");
    // NAME_PORT=tcp://10.0.0.1:80 is another of Kubernetes' service links.
    const bool link = value.starts_with("tcp://") || value.starts_with("udp://");
    if (ours && !link && !is_known_variable(name)) unknown.insert(name);
  }
  std::vector<std::string> warnings;
  for (const std::string& name : unknown) warnings.push_back(unknown_variable(name));
  return warnings;
}

std::string_view level_name(RunLogLevel level) noexcept {
  constexpr std::string_view kNames[] = {"trace", "debug", "info", "warning", "error", "critical"};
  return kNames[static_cast<std::size_t>(level)];
}

template <class T>
SettingRow row(std::string key, std::string value, const Setting<T>& setting) {
  const bool option = setting.source == SettingSource::kOption;
  return {std::move(key), std::move(value),
          setting.source == SettingSource::kDefault
              ? "default"
              : fmt::format("{} {}", option ? "option" : "variable", setting.name)};
}

std::string yes_or_no(bool value) { return value ? "true" : "false"; }

}  // namespace

Result<RunSettings> read_run_settings(const SettingInput& input) {
  ValueSource source(input);
  RunSettings settings;
  source.read(settings.model, kModel);
  check_model(settings.model, source);
  read_profile(settings, source);  // before the size, which wins over it
  source.read(settings.tensor_parallel, kTensorParallel, kRanksMax);
  source.read(settings.max_model_len, kMaxModelLen, kTokensMax);
  source.read(settings.cache_folder, kCacheFolder);
  source.read(settings.log_level, kLogLevel);
  source.read(settings.json_logs, kJsonLogs);
  source.read(settings.download_disabled, kDownloadDisabled);
  refuse_above_one(kPipeline, "pipeline stages", source);
  refuse_above_one(kNodes, "compute nodes", source);
  IMEX_CHECK_OK(source.finish());
  settings.warnings = warnings_about(input.environment);
  return settings;
}

std::vector<SettingRow> setting_rows(const RunSettings& s) {
  return {row("model", s.model.value, s.model),
          row("profile", s.profile.value, s.profile),
          row("tensor_parallel", fmt::format("{}", s.tensor_parallel.value), s.tensor_parallel),
          row("max_model_len", fmt::format("{}", s.max_model_len.value), s.max_model_len),
          row("cache_folder", s.cache_folder.value, s.cache_folder),
          row("log_level", std::string(level_name(s.log_level.value)), s.log_level),
          row("json_logs", yes_or_no(s.json_logs.value), s.json_logs),
          row("download_disabled", yes_or_no(s.download_disabled.value), s.download_disabled)};
}

}  // namespace imex::inference
