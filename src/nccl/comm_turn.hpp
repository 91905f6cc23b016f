/// The right to use a Comm's communicator, for one operation at a time.
#pragma once

#include <utility>

#include "base/result.hpp"
#include "comm.hpp"

namespace imex::nccl {

class Comm::Turn {
 public:
  static Result<Turn> take(Comm& comm) {
    const MutexLock lock(comm.mutex_);
    if (!comm.ready_ || comm.aborted_) return fail(comm.not_usable());
    if (comm.busy_) {
      return fail(Errc::kFailedPrecondition,
                  "the communicator is busy with a call of another thread",
                  "use one communicator per thread, or one call after the other");
    }
    comm.busy_ = true;
    return Turn(comm);
  }
  Turn(Turn&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (comm_ != nullptr) comm_->end_turn();
  }

 private:
  explicit Turn(Comm& comm) noexcept : comm_(&comm) {}
  Comm* comm_;
};

}  // namespace imex::nccl
