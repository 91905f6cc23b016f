/// The places where ranks meet that this process has made for ncclGetUniqueId() and its like.
#pragma once

#include <cstddef>
#include <deque>

#include <imex/communicator.hpp>

#include "base/mutex.hpp"

namespace imex::nccl {

/// A place is given up once a rank of this process has come back from it with a communicator: then
/// all ranks are in it. One whose ranks all are other processes (a launcher's), or never come,
/// stays until kRendezvousMax later ones were made. Each takes a descriptor and some pages.
/// Thread-safe.
class RendezvousStore {
 public:
  static constexpr std::size_t kRendezvousMax = 256;

  static RendezvousStore& instance();

  /// Errors: those of `made`.
  [[nodiscard]] Result<UniqueId> keep(Result<Rendezvous> made);
  /// All ranks have met at `id`, which may be another process's.
  void met(const UniqueId& id);
  [[nodiscard]] std::size_t size();

 private:
  Mutex mutex_;
  std::deque<Rendezvous> kept_ IMEX_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace imex::nccl
