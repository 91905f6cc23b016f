#include <fmt/format.h>

#include "commands.hpp"
#include "domain/config.hpp"

namespace imex::cli {

Result<void> config_show(const Global& global, const ConfigShowOptions& options) {
  const auto personality = options.program == "nvidia-imex" ? domain::Personality::kNvidiaImex
                                                            : domain::Personality::kImexd;
  IMEX_TRY(const domain::LoadedConfig loaded, options.file.empty()
                                                  ? domain::parse_config("", "", personality)
                                                  : domain::load_config(options.file, personality));
  Table table({"KEY", "VALUE", "SOURCE", "MEANING"});
  std::vector<Json> rows;
  const LocateOptions locate = locate_options(global.state_dir);
  const auto add = [&](const std::string& key, const std::string& value, const std::string& source,
                       const std::string& help) {
    if (options.changed_only && source == "default") return;
    table.add({key, value, source, help});
    rows.push_back({{"key", key}, {"value", value}, {"source", source}, {"help", help}});
  };
  add("state_dir", locate.state_dir.empty() ? locate.state_dir_variable : locate.state_dir,
      !locate.state_dir.empty()            ? "option --state-dir"
      : !locate.state_dir_variable.empty() ? "variable IMEX_STATE_DIR"
                                           : "default",
      "of the daemon that imex asks; empty: the only one on this machine");
  for (const auto& value : loaded.values) add(value.key, value.value, value.source, value.help);
  if (!global.quiet) {
    for (const auto& warning : loaded.warnings) fmt::print(stderr, "imex: warning: {}\n", warning);
  }
  return print(render_list(global.format, "config", rows, table));
}

}  // namespace imex::cli
