/// Calls between ncclGroupStart() and ncclGroupEnd() of one thread, and how they run.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm.hpp"

/// What ncclComm_t points to. Calls take a share of `comm`, so that an abort by another thread does
/// not pull it away under them.
struct ncclComm {
  static constexpr std::uint64_t kMagic = 0x314D'4D4F'4358'4d49ULL;  // "IMXCOMM1" in memory

  std::uint64_t magic = kMagic;
  std::shared_ptr<imex::nccl::Comm> comm;
};

namespace imex::nccl {

/// Errors: kInvalidArgument, also for a handle that has ended, as far as that can be seen.
[[nodiscard]] Result<std::shared_ptr<Comm>> comm_of(ncclComm_t handle);

/// A communicator on its way.
struct Creation {
  std::shared_ptr<Comm> comm;
  Setup setup;
  std::shared_ptr<Comm> parent;  ///< in use meanwhile; may be null
  ncclComm_t* handle =
      nullptr;  ///< the caller's; set at once where the communicator does not block
};

/// Calls of one thread. Outside of a group each call is a group by itself.
class Group {
 public:
  static constexpr std::size_t kCallsMax = 65536;

  static Group& of_this_thread();

  void start() { ++depth_; }
  /// Of the outermost level: runs what was added.
  ncclResult_t end();
  /// Of the outermost level: forgets what was added.
  Result<void> end_unused();

  ncclResult_t add(const std::shared_ptr<Comm>& comm, const Call& call);
  ncclResult_t add(Creation creation);
  /// A call within the group was refused: the group will not run.
  ncclResult_t refuse(const Error& error);
  [[nodiscard]] bool has_calls_of(const Comm& comm) const;

 private:
  struct Queue {
    std::shared_ptr<Comm> comm;
    std::vector<Call> calls;
  };

  [[nodiscard]] ncclResult_t run();
  void clear();

  std::uint32_t depth_ = 0;
  std::vector<Queue> queues_;
  std::vector<Creation> creations_;
  std::size_t call_count_ = 0;
  std::optional<Error> refused_;
};

}  // namespace imex::nccl
