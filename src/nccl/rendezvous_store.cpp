#include "rendezvous_store.hpp"

#include <utility>

#include "base/result.hpp"

namespace imex::nccl {

RendezvousStore& RendezvousStore::instance() {
  // Never destroyed: a thread may still be on its way in when the process ends.
  static RendezvousStore& store = *new RendezvousStore;
  return store;
}

Result<UniqueId> RendezvousStore::keep(Result<Rendezvous> made) {
  IMEX_TRY(Rendezvous rendezvous, std::move(made));
  const UniqueId id = rendezvous.id();
  const MutexLock lock(mutex_);
  if (kept_.size() == kRendezvousMax) kept_.pop_front();
  kept_.push_back(std::move(rendezvous));
  return id;
}

void RendezvousStore::met(const UniqueId& id) {
  const MutexLock lock(mutex_);
  std::erase_if(kept_, [&](const Rendezvous& each) { return each.id() == id; });
}

std::size_t RendezvousStore::size() {
  const MutexLock lock(mutex_);
  return kept_.size();
}

}  // namespace imex::nccl
