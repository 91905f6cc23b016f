/// What a person asked of one run: by options, by IMEX_... and by NIM_... variables.
///
///     IMEX_TRY(const auto settings, read_run_settings({.options = {{"--model", "a.gguf"}},
///                                                      .environment = variables}));
///     for (const std::string& warning : settings.warnings) log::warn(...);
///
/// An option wins over IMEX_..., that over NIM_..., that over the default; an empty value is none.
/// Only the value that wins is checked. Values of HF_TOKEN, NGC_API_KEY, NGC_CLI_API_KEY and
/// AWS_... appear in no text made here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace imex::inference {

enum class SettingSource : std::uint8_t { kDefault, kNim, kImex, kOption };

/// A value and where it is from.
template <class T>
struct Setting {
  T value{};
  SettingSource source = SettingSource::kDefault;
  std::string name{};  ///< the option or the variable; empty with kDefault
};

enum class RunLogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kCritical };

struct RunSettings {
  Setting<std::string> model{"smollm2-135m"};  ///< --model, ..._MODEL_PATH: a path or a known name
  Setting<std::string> profile;                ///< ..._MODEL_PROFILE; empty: none asked for
  /// --tensor-parallel, ..._TENSOR_PARALLEL_SIZE, else the tpN of the profile.
  Setting<std::uint32_t> tensor_parallel{1};
  Setting<std::uint32_t> max_model_len;  ///< --max-model-len, ...; 0: what the model can
  Setting<std::string> cache_folder;     ///< IMEX_CACHE_DIR, NIM_CACHE_PATH; empty: the usual one
  Setting<RunLogLevel> log_level{RunLogLevel::kInfo};  ///< --log-level, ..._LOG_LEVEL
  Setting<bool> json_logs;                             ///< ..._JSONL_LOGGING
  Setting<bool> download_disabled;                     ///< ..._DISABLE_MODEL_DOWNLOAD
  std::vector<std::string> warnings;  ///< variables that nobody knows, each with the nearest name
};

using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// What to read from. Of a name that stands there twice the last counts.
struct SettingInput {
  NamedValues options;      ///< those given: {"--tensor-parallel", "2"}
  NamedValues environment;  ///< all variables of the process
};

/// Errors: kInvalidArgument (a value that is none), kUnsupported (pipeline stages or nodes above 1,
/// a model that is not on this machine's disks, a profile by its id): one message for all that is
/// wrong, each with what was wanted and what was found.
[[nodiscard]] Result<RunSettings> read_run_settings(const SettingInput& input);

/// One line per value, for people and for --print-config.
struct SettingRow {
  std::string key, value;
  std::string source;  ///< "option --model", "variable NIM_MODEL_PATH", "default"
};
[[nodiscard]] std::vector<SettingRow> setting_rows(const RunSettings& settings);

}  // namespace imex::inference
