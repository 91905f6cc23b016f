#include "fd_table.hpp"

#include <utility>

#include "os/memory.hpp"

namespace imex::domain {

/// The inode only finds the candidate: numbers repeat, and a client must never get the memory of
/// another. Nor is the same inode enough, since one may be opened again for reading only.
std::shared_ptr<FdTable::File> FdTable::keep(os::UniqueFd fd) {
  const auto facts = os::file_facts(fd.get());
  const bool memory = facts && facts->sealed_shrink;
  const auto known = memory ? memory_.find(facts->inode) : memory_.end();
  if (known != memory_.end()) {
    auto file = known->second.lock();
    if (file && os::same_open_file(file->fd.get(), fd.get())) return file;
  }
  auto file = std::make_shared<File>(File{std::move(fd), 0});
  ++open_count_;
  if (memory && known == memory_.end()) {
    file->inode = facts->inode;
    memory_.emplace(file->inode, file);
  }
  return file;
}

FdToken FdTable::add(os::UniqueFd fd) {
  const FdToken token = ++last_;
  fds_.emplace(token, keep(std::move(fd)));
  return token;
}

std::vector<FdToken> FdTable::add_all(std::vector<os::UniqueFd> fds) {
  std::vector<FdToken> tokens;
  tokens.reserve(fds.size());
  for (os::UniqueFd& fd : fds) tokens.push_back(add(std::move(fd)));
  return tokens;
}

void FdTable::release(FdToken token) noexcept {
  const auto found = fds_.find(token);
  if (found == fds_.end()) return;
  if (found->second.use_count() == 1) {
    --open_count_;
    memory_.erase(found->second->inode);
  }
  fds_.erase(found);
}

int FdTable::get(FdToken token) const noexcept {
  const auto found = fds_.find(token);
  return found == fds_.end() ? -1 : found->second->fd.get();
}

}  // namespace imex::domain
