/// PostgreSQL behind the store's statement layer, and the few things that only a server has.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "sql.hpp"

namespace imex::partition::sql {

/// `url`: postgresql://… or a libpq key=value string.
[[nodiscard]] std::unique_ptr<Database> postgres_database(std::string url);

/// One connection that listens on a channel. Not thread-safe.
class Listener {
 public:
  virtual ~Listener() = default;
  /// True: a notification came whose text is not `own`. False: none did before the time passed or
  /// `wake_fd` became readable.
  [[nodiscard]] virtual Result<bool> wait(std::chrono::milliseconds limit, int wake_fd,
                                          std::string_view own) = 0;
};
[[nodiscard]] Result<std::unique_ptr<Listener>> postgres_listen(const std::string& url,
                                                                const std::string& channel);

}  // namespace imex::partition::sql
