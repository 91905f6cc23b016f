#include "locate.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace imex::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool has_socket(const fs::path& directory) {
  std::error_code error;
  return fs::is_socket(directory / "command.sock", error) ||
         fs::is_socket(directory / "control.sock", error);
}

std::vector<std::string> daemons_below(const std::string& root) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    if (has_socket(at->path())) found.push_back(at->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

LocateOptions locate_options(std::string state_dir) {
  LocateOptions options{std::move(state_dir), environment("IMEX_STATE_DIR"), {}};
  if (const std::string xdg = environment("XDG_RUNTIME_DIR"); !xdg.empty()) {
    options.run_roots.push_back(xdg + "/imex");
  }
  options.run_roots.emplace_back("/run/imex");
  return options;
}

Result<DaemonPaths> locate_daemon(const LocateOptions& options) {
  const std::string& given =
      options.state_dir.empty() ? options.state_dir_variable : options.state_dir;
  if (!given.empty()) {
    // A daemon without a state directory has its sockets in the run directory itself.
    const bool is_run_directory = !has_socket(given + "/run") && has_socket(given);
    return DaemonPaths{is_run_directory ? given : given + "/run"};
  }

  std::vector<std::string> found;
  for (const auto& root : options.run_roots) {
    const auto below = daemons_below(root);
    found.insert(found.end(), below.begin(), below.end());
  }
  if (found.size() == 1) return DaemonPaths{found.front()};
  if (found.empty()) {
    return fail(Errc::kNotFound,
                fmt::format("no daemon of this machine found: no socket in {}",
                            fmt::join(options.run_roots, " or ")),
                "start imexd, or name its state directory with --state-dir or IMEX_STATE_DIR");
  }
  return fail(
      Errc::kFailedPrecondition,
      fmt::format("{} daemons run on this machine: {}", found.size(), fmt::join(found, ", ")),
      "choose one with --state-dir DIRECTORY");
}

}  // namespace imex::cli
