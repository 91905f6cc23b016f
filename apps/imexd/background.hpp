/// Going into the background: the parent stays until the daemon is READY or has failed, so that
/// whoever started it (systemd's forking type, a script) learns the outcome.
#pragma once

#include <optional>

#include "os/fd.hpp"

namespace imexd {

class Background {
 public:
  /// Forks; no thread may exist yet. In the parent: the status to exit with. In the child: nothing;
  /// it has a session of its own and no terminal.
  [[nodiscard]] std::optional<int> fork_now();
  /// In the child, once; later calls, and calls without a parent, do nothing.
  void tell_parent(int status) noexcept;

 private:
  imex::os::UniqueFd to_parent_;
};

}  // namespace imexd
