/// Descriptors that the broker holds by token.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "domain/broker.hpp"
#include "os/fd.hpp"

namespace imex::domain {

/// Owns each descriptor from add() to release(). Tokens are never reused.
class FdTable {
 public:
  [[nodiscard]] FdToken add(os::UniqueFd fd) {
    const FdToken token = ++last_;
    fds_.emplace(token, std::move(fd));
    return token;
  }
  [[nodiscard]] std::vector<FdToken> add_all(std::vector<os::UniqueFd> fds) {
    std::vector<FdToken> tokens;
    tokens.reserve(fds.size());
    for (os::UniqueFd& fd : fds) tokens.push_back(add(std::move(fd)));
    return tokens;
  }
  void release(FdToken token) noexcept { fds_.erase(token); }
  /// -1 for an unknown token. Borrowed until release().
  [[nodiscard]] int get(FdToken token) const noexcept {
    const auto found = fds_.find(token);
    return found == fds_.end() ? -1 : found->second.get();
  }
  [[nodiscard]] std::size_t size() const noexcept { return fds_.size(); }

 private:
  FdToken last_ = 0;
  std::unordered_map<FdToken, os::UniqueFd> fds_;
};

}  // namespace imex::domain
