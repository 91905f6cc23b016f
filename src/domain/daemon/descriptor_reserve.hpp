/// Descriptors that requests of clients do not get, so that the daemon stays reachable when clients
/// have taken all others.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace imex::domain {

/// The kernel gives the lowest free number: a new descriptor with a high one says that nearly all
/// below it are taken.
class DescriptorReserve {
 public:
  /// Of the highest descriptor that came with a request: whether to refuse the request.
  [[nodiscard]] static bool touched_by(int fd) noexcept {
    const int most = limit();
    return fd >= most - size(most);
  }
  /// Of a connection of a client or of a command: whether not even an answer can be afforded.
  [[nodiscard]] static bool used_up_by(int fd) noexcept {
    const int most = limit();
    return fd >= most - size(most) / 2;
  }

  /// Of a connection of another daemon: whether it must go, because what is left is for connections
  /// and files of our own.
  [[nodiscard]] static bool exhausted_by(int fd) noexcept {
    const int most = limit();
    return fd >= most - size(most) / 4;
  }

  /// Lifts the limit of this process as far as it may.
  static void raise_limit() noexcept {
    rlimit bounds{};
    if (::getrlimit(RLIMIT_NOFILE, &bounds) != 0) return;
    bounds.rlim_cur = bounds.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &bounds);
  }

 private:
  static constexpr int kMin = 16, kMax = 128;
  /// Read each time: an administrator may lower it while the daemon runs (prlimit), and requests
  /// that come right then would eat the reserve if an older value still counted.
  [[nodiscard]] static int limit() noexcept {
    rlimit bounds{};
    if (::getrlimit(RLIMIT_NOFILE, &bounds) != 0) return INT32_MAX;
    return static_cast<int>(std::min<rlim_t>(bounds.rlim_cur, INT32_MAX));
  }
  [[nodiscard]] static int size(int limit) noexcept { return std::clamp(limit / 8, kMin, kMax); }
};

}  // namespace imex::domain
