/// Descriptors that the broker holds by token.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "domain/broker.hpp"
#include "os/fd.hpp"

namespace imex::domain {

/// Owns each descriptor from add() to release(). Tokens are never reused.
///
/// A memory file that came before, as each export of one allocation brings it again, is kept once:
/// the second descriptor is closed and the tokens share the first. So what a daemon can hold is
/// bounded by allocations rather than by handles.
class FdTable {
 public:
  [[nodiscard]] FdToken add(os::UniqueFd fd);
  [[nodiscard]] std::vector<FdToken> add_all(std::vector<os::UniqueFd> fds);
  void release(FdToken token) noexcept;
  /// -1 for an unknown token. Borrowed until release().
  [[nodiscard]] int get(FdToken token) const noexcept;
  /// Open descriptors; tokens that share one count once.
  [[nodiscard]] std::size_t size() const noexcept { return open_count_; }

 private:
  struct File {
    os::UniqueFd fd;
    std::uint64_t inode = 0;  ///< in `memory_`; 0: not there
  };
  [[nodiscard]] std::shared_ptr<File> keep(os::UniqueFd fd);

  FdToken last_ = 0;
  std::size_t open_count_ = 0;
  std::unordered_map<FdToken, std::shared_ptr<File>> fds_;
  std::unordered_map<std::uint64_t, std::weak_ptr<File>> memory_;  ///< sealed memfds by inode
};

}  // namespace imex::domain
