/// What the tenant's commands share beside their output.
#pragma once

#include <string>

#include "partition/client/wait.hpp"
#include "tenant_commands.hpp"
#include "tenant_output.hpp"

namespace imex::cli {

/// "key=value" words as a map. Errors: kInvalidArgument.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_labels(
    const std::vector<std::string>& words);

/// Runs `wait(WaitOptions)` with the deadline of the options and a line of progress for `what`.
/// Errors: kInvalidArgument (--wait-timeout), those of `wait`.
template <class Wait>
auto wait_with_progress(const Global& global, const TenantOptions& options, const std::string& what,
                        Wait wait) -> decltype(wait(partition::client::WaitOptions{}));

/// How long --wait waits. Errors: kInvalidArgument.
[[nodiscard]] Result<Nanos> wait_time(const TenantOptions& options);

/// After a DELETE was accepted: waits if asked to, and says what came of it.
template <class IdOf>
Result<void> finish_delete(const Global& global, const TenantOptions& options,
                           partition::client::Client& client, const IdOf& id,
                           const std::string& kind);

// ---- Implementation ----------------------------------------------------------------------------

template <class Wait>
auto wait_with_progress(const Global& global, const TenantOptions& options, const std::string& what,
                        Wait wait) -> decltype(wait(partition::client::WaitOptions{})) {
  IMEX_TRY(const Nanos patience, wait_time(options));
  Progress progress(1, global.quiet);
  partition::client::WaitOptions waiting;
  waiting.deadline =
      std::chrono::steady_clock::now() + std::chrono::ceil<std::chrono::milliseconds>(patience);
  waiting.progress = [&](const std::string& seen) { progress.amount(what + ": " + seen, 0, 0); };
  return wait(waiting);
}

template <class IdOf>
Result<void> finish_delete(const Global& global, const TenantOptions& options,
                           partition::client::Client& client, const IdOf& id,
                           const std::string& kind) {
  if (options.wait) {
    IMEX_CHECK_OK(wait_with_progress(global, options, options.target, [&](const auto& waiting) {
      return partition::client::wait_gone(client, id, waiting);
    }));
  }
  if (global.format != Format::kTable) {
    return print(
        Json{{"id", id.to_string()}, {"state", options.wait ? "gone" : "deleting"}}.dump());
  }
  if (!global.quiet) {
    std::fputs((kind + " " + id.to_string() + (options.wait ? " is gone\n" : " is being deleted\n"))
                   .c_str(),
               stderr);
  }
  return {};
}

}  // namespace imex::cli
