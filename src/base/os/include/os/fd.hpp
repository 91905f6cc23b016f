/// Owner of one file descriptor.
#pragma once

#include <utility>

#include "base/result.hpp"

namespace imex::os {

/// Closes its descriptor when destroyed. All descriptors made by `os` are close-on-exec.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return valid(); }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

  /// A second descriptor of the same open file.
  [[nodiscard]] Result<UniqueFd> duplicate() const;

 private:
  int fd_ = -1;
};

/// Whether both name the same open file: not only the same inode, but one open() or memfd_create().
/// False as well where the kernel does not tell (kcmp not built in, or filtered).
[[nodiscard]] bool same_open_file(int first, int second) noexcept;

}  // namespace imex::os
