/// What stands behind an ncclComm_t: a communicator, and the states that NCCL gives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include <imex/communicator.hpp>
#include <imex/nccl/nccl.h>

#include "base/mutex.hpp"
#include "messages.hpp"
#include "scale.hpp"

namespace imex::nccl {

/// One call of an operation, as far as it is the same for all of them.
struct Call {
  enum class Kind : std::uint8_t {
    kAllReduce,
    kReduce,
    kBroadcast,
    kReduceScatter,
    kAllGather,
    kAllToAll,
    kGather,
    kScatter,
    kSend,
    kReceive,
  };
  Kind kind = Kind::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int root = 0;  ///< or the peer

  // Filled in by Comm::check().
  DataType data_type = DataType::kUint8;
  ReduceOp reduce_op = ReduceOp::kSum;
  std::optional<Scalar> factor{};   ///< of the inputs
  const void* factor_at = nullptr;  ///< or where it lies when the call runs
  std::uint32_t rank = 0;           ///< `root`

  [[nodiscard]] bool is_message() const noexcept { return kind >= Kind::kGather; }
  [[nodiscard]] std::size_t bytes() const noexcept { return count * element_bytes(data_type); }
};

/// How to make a communicator, until stopped; none for a rank that is to have no part in it.
using Setup = std::function<Result<std::optional<Communicator>>(const std::stop_token&)>;

/// Thread-safe. Of operations one runs at a time; a second one is refused, as a program that makes
/// two at once on one communicator is wrong under NCCL as well.
class Comm {
 public:
  struct Facts {
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;
    int device = 0;
    bool blocking = true;
  };
  explicit Comm(const Facts& facts) : blocking_(facts.blocking), facts_(facts) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  [[nodiscard]] bool blocking() const noexcept { return blocking_; }
  [[nodiscard]] Facts facts();

  /// Makes the communicator; at most once. False: this rank has no part in it.
  Result<bool> set_up(const Setup& setup);

  /// Checks arguments, and fills in what is derived from them.
  Result<void> check(Call& call);
  /// Runs checked calls: collectives in order, then all messages together.
  Result<void> run(std::span<const Call> calls);
  /// Runs `use` with the communicator, beside no operation.
  Result<std::optional<Communicator>> derive(
      const std::function<Result<std::optional<Communicator>>(Communicator&)>& use);

  /// Where more ranks will meet these.
  Result<UniqueId> make_next_meeting();

  /// A job on a thread of its own: while there is one, the state is ncclInProgress and calls are
  /// refused. Errors of begin_job(): kFailedPrecondition.
  Result<void> begin_job();
  void end_job(const Result<void>& result);
  void wait_for_jobs();
  [[nodiscard]] bool has_job();

  /// Whether operations may be called: made, and not aborted, revoked or finalized.
  Result<void> usable();
  /// No operation may be called any more; those that were will run.
  Result<void> finalize();
  /// Ends the operations of all ranks, and waits until this one's have.
  void abort();
  /// The same, for good, but the communicator can still be shrunk.
  void revoke();
  /// Why the communicator is of no more use; nothing while it is, or was revoked.
  [[nodiscard]] std::optional<Error> failure();

  Result<int> add_operator(int type, int residence, const void* scalar);
  Result<void> remove_operator(int op);

  struct Registration {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  Result<Registration*> add_registration(void* data, std::size_t bytes);
  Result<void> remove_registration(const void* handle);
  Result<Registration> find_registration(const void* handle);

 private:
  class Turn;
  struct Operator {
    DataType type = DataType::kUint8;
    std::optional<Scalar> value{};
    const void* at = nullptr;
  };

  Result<bool> adopt(Communicator made);
  void end_turn();
  void end_operations() IMEX_REQUIRES(mutex_);
  [[nodiscard]] Error not_usable() IMEX_REQUIRES(mutex_);
  Result<Facts> usable_facts();
  Result<void> check_operator(Call& call);
  Result<void> check_places(const Call& call, const Facts& facts) const;
  Result<void> run_collective(const Call& call);
  Result<void> run_messages(std::span<const Call> calls);
  void add_messages(const Call& call);
  const void* scaled(const Call& call, std::size_t parts);

  const bool blocking_;
  Mutex mutex_;
  CondVar changed_;
  Facts facts_ IMEX_GUARDED_BY(mutex_);
  /// Set once, by who has the turn; then used by who has the turn. abort() and async_error() of the
  /// communicator may be called by any thread.
  std::optional<Communicator> communicator_;
  std::optional<Messages> messages_;
  bool made_ IMEX_GUARDED_BY(mutex_) = false;   ///< communicator_ is there
  bool ready_ IMEX_GUARDED_BY(mutex_) = false;  ///< ... and messages_: operations may run
  bool busy_ IMEX_GUARDED_BY(mutex_) = false;   ///< somebody has the turn
  bool aborted_ IMEX_GUARDED_BY(mutex_) = false;
  bool revoked_ IMEX_GUARDED_BY(mutex_) = false;
  bool finalized_ IMEX_GUARDED_BY(mutex_) = false;
  std::uint32_t jobs_ IMEX_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ IMEX_GUARDED_BY(mutex_);
  std::stop_source stop_;  ///< of set_up()
  std::vector<std::optional<Operator>> operators_ IMEX_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Registration>> registrations_ IMEX_GUARDED_BY(mutex_);

  // Of who has the turn; kept so that calls need not allocate.
  std::vector<std::byte> scratch_;
  std::vector<Outgoing> sends_;
  std::vector<Incoming> receives_;
};

/// How long waits last: IMEX_NCCL_TIMEOUT_MS. Errors: kInvalidArgument.
[[nodiscard]] Result<std::chrono::milliseconds> wait_timeout();

}  // namespace imex::nccl
