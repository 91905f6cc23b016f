/// Ranks that swap data through memory which all of them have mapped.
///
///     auto rendezvous = imex::Rendezvous::create();            // in one process
///     ... hand rendezvous->id() to all ranks, by any means ...
///     auto comm = imex::Communicator::create(id, rank, ranks);
///     comm->all_reduce(in, out, count, DataType::kFloat32, ReduceOp::kSum);
///
/// All ranks call the same operations in the same order, with the same sizes, types and options.
/// The library checks that in checked mode (IMEX_CHECK=1) and then names both calls; it costs each
/// call one more exchange of a cache line with every peer.
///
/// Buffers: any pointer works, of any alignment; input and output are the same range or do not
/// overlap. Memory from allocate() is faster, because the peers read and write it in place. A call
/// passes such memory in every rank or in none.
///
/// Threads: a lane carries one operation at a time; a second call on it meanwhile returns
/// kFailedPrecondition. Calls on different lanes, abort() and async_error() may run at any time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <imex/allocation.hpp>
#include <imex/data_type.hpp>
#include <imex/export.h>
#include <imex/result.hpp>
#include <imex/session.hpp>
#include <imex/wait.hpp>

namespace imex {

/// What names a group of ranks before they have met: 128 opaque bytes. Treat it as a secret.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  friend bool operator==(const UniqueId&, const UniqueId&) = default;

  [[nodiscard]] IMEX_API std::string to_hex() const;
  /// Errors: kInvalidArgument unless exactly 256 hexadecimal digits.
  [[nodiscard]] IMEX_API static Result<UniqueId> from_hex(std::string_view text);
};

namespace exchange {
class MeetingPlace;
class Core;
class OperationQueue;
struct StartedOperation;
}  // namespace exchange

/// The place where ranks meet: a small piece of shared memory. Serves one communicator. Must live
/// until Communicator::create() has returned in every rank; its process may be that of a rank or of
/// whoever starts them (a parent that forks, a launcher).
class IMEX_API Rendezvous {
 public:
  /// For ranks that are threads of one process, or processes of one user on this machine which see
  /// each other's /proc. Errors: kResourceExhausted.
  [[nodiscard]] static Result<Rendezvous> create();
  /// For ranks with sessions on the same channel of one domain, each created with its own session.
  /// Errors: as Session::export_memory().
  [[nodiscard]] static Result<Rendezvous> create(const Session& session);

  Rendezvous(Rendezvous&&) noexcept;
  Rendezvous& operator=(Rendezvous&&) noexcept;
  ~Rendezvous();
  [[nodiscard]] const UniqueId& id() const noexcept;

 private:
  friend class Communicator;
  explicit Rendezvous(std::shared_ptr<exchange::MeetingPlace> place) noexcept;
  std::shared_ptr<exchange::MeetingPlace> place_;
};

/// An operation that was started: see Communicator::start_all_reduce(). Movable. Its buffers belong
/// to it until it is done. Dropping it does not end the operation. Not to be used once the
/// communicator has ended.
class IMEX_API Request {
 public:
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();
  /// Whether it is done; never blocks on a peer.
  [[nodiscard]] bool test() const;
  /// Its result. Any number of times.
  [[nodiscard]] Result<void> wait();

 private:
  friend class Communicator;
  Request(exchange::OperationQueue& queue,
          std::shared_ptr<exchange::StartedOperation> operation) noexcept;
  exchange::OperationQueue* queue_;
  std::shared_ptr<exchange::StartedOperation> operation_;
};

/// How much the bits of a float sum may depend on.
enum class Determinism : std::uint8_t {
  kOrderInvariant = 0,  ///< on the inputs only: ranks ascending from +0.0, one rounding
  kConsistent = 1,      ///< all ranks of one call hold the same bits
  kFast = 2,            ///< anything
};

/// Ways to do an all_reduce.
enum class Algorithm : std::uint8_t {
  kAuto = 0,        ///< by trial: the first calls of a size go through each likely one in turn
  kPacket = 1,      ///< one-shot, data and readiness in one cache line
  kMailbox = 2,     ///< two-shot; the owner of a slice answers in the line that it was asked in
  kRing = 3,        ///< one-shot through a ring of slots
  kRegistered = 4,  ///< two-shot in place; buffers from allocate() only
  kSingleCopy = 5,  ///< two-shot; reads the peers' private memory through the kernel
  /// Within each group of near ranks to its first one, among these, and back. Where there are such
  /// groups, for determinism kConsistent and kFast and all but kAvg; partial sums are rounded to
  /// the type.
  kTwoLevel = 6,
};
inline constexpr std::uint32_t kAlgorithmCount = 7;
[[nodiscard]] IMEX_API std::string_view algorithm_name(Algorithm algorithm) noexcept;
[[nodiscard]] IMEX_API std::optional<Algorithm> algorithm_from_name(std::string_view name) noexcept;

struct CommunicatorOptions {
  std::uint32_t lanes = 1;            ///< independent streams of operations, at most 16
  std::size_t slot_bytes = 64 << 10;  ///< of the ring, at most; less when there are many ranks
  /// Of each wait for a peer, and of create(). Zero: none.
  std::chrono::milliseconds timeout{30'000};
  Determinism determinism = Determinism::kOrderInvariant;
  Algorithm algorithm = Algorithm::kAuto;  ///< of every all_reduce that can be done this way
  /// Ranks of one number, but 0xffffffff, are near each other; for kTwoLevel. Set in all ranks or
  /// in none. Unset: by the L3 cache, else by the NUMA node, that all cores of this thread share.
  std::optional<std::uint32_t> locality{};
  /// How waits go; unset: by the number of ranks and of usable cores.
  std::optional<WaitPolicy> wait{};
  /// Compare operation, size and type across ranks before each operation; the same in all ranks.
  /// Unset: by the environment variable IMEX_CHECK, 1 or 0, else as the library was built: off but
  /// for builds with IMEX_CHECKED (preset dev).
  std::optional<bool> check{};
  /// Peers may read this rank's private memory through the kernel, where that permits it: one copy
  /// of large vectors instead of two. Off in one rank: nobody's is read.
  bool single_copy = true;
  /// Ends a create() that waits for ranks, within 20 ms; of no use later, where abort() serves.
  std::stop_token stop{};
};

/// What a communicator did so far.
struct CommunicatorCounters {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;  ///< of this rank's vectors
  std::array<std::uint64_t, kAlgorithmCount> by_algorithm{};
  /// Operations whose size has so many binary digits: [4] counts 8 to 15 bytes.
  std::array<std::uint64_t, 48> by_bytes{};
  /// Every 16th operation of a lane by the binary digits of its nanoseconds: [10] counts 512 to
  /// 1023 ns. To time each would cost a short one a third.
  std::array<std::uint64_t, 48> by_time{};
};

/// One rank's end of a group. Movable.
///
/// Every operation returns one of these errors, then the communicator is of no more use than for
/// shrink() and its end: kPeerLost with the rank, kAborted, kDeadlineExceeded with the rank that
/// did not come, kRevoked (memory withdrawn by the fabric or the daemon). kInvalidArgument,
/// kResourceExhausted and kFailedPrecondition leave it as it was, unless async_error() says
/// otherwise: ranks that turn out to be in different calls cannot go on.
class IMEX_API Communicator {
 public:
  /// Collective. Errors: kInvalidArgument (rank, size, options; not the same in all ranks),
  /// kDeadlineExceeded (names the ranks that did not come), kAlreadyExists (the rank is taken),
  /// kPeerLost (one that came has died), kAborted (`stop`), kNotFound, kPermissionDenied (the
  /// peers' memory cannot be reached), kVersionMismatch, kStale, kDataLoss (what is there is no
  /// rank of this communicator), kResourceExhausted.
  [[nodiscard]] static Result<Communicator> create(const UniqueId& id, std::uint32_t rank,
                                                   std::uint32_t ranks,
                                                   const CommunicatorOptions& options = {});
  /// The same through the node daemon, for an id of Rendezvous::create(session): ranks need not see
  /// each other's processes, and memory that the fabric withdraws ends the communicator with
  /// kRevoked. Keeps the session open and uses one of its abort scopes. Further errors: as
  /// Session::import_memory().
  [[nodiscard]] static Result<Communicator> create(const Session& session, const UniqueId& id,
                                                   std::uint32_t rank, std::uint32_t ranks,
                                                   const CommunicatorOptions& options = {});
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  [[nodiscard]] std::uint32_t rank() const noexcept;
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// Grows by one with each shrink(), split() and grow(); peers of another generation are refused.
  [[nodiscard]] std::uint64_t generation() const noexcept;

  /// Reduces `count` elements of every rank's `in`; every rank gets all results.
  [[nodiscard]] Result<void> all_reduce(const void* in, void* out, std::size_t count, DataType type,
                                        ReduceOp op, std::uint32_t lane = 0);
  /// Rank r gets elements [r * count, (r + 1) * count) of the reduction of size() * count elements.
  /// In place: `out` is in + rank() * count elements.
  [[nodiscard]] Result<void> reduce_scatter(const void* in, void* out, std::size_t count,
                                            DataType type, ReduceOp op, std::uint32_t lane = 0);
  /// Rank r's `in` becomes bytes [r * bytes, (r + 1) * bytes) of every `out`. In place: `in` is
  /// out + rank() * bytes.
  [[nodiscard]] Result<void> all_gather(const void* in, void* out, std::size_t bytes,
                                        std::uint32_t lane = 0);
  /// `bytes` of the root's buffer arrive in everybody's.
  [[nodiscard]] Result<void> broadcast(void* buffer, std::size_t bytes, std::uint32_t root,
                                       std::uint32_t lane = 0);
  /// As all_reduce(), for the root only; `out` of the others is not touched and may be null.
  [[nodiscard]] Result<void> reduce(const void* in, void* out, std::size_t count, DataType type,
                                    ReduceOp op, std::uint32_t root, std::uint32_t lane = 0);
  /// Part r of `in` becomes part rank() of rank r's `out`; parts of `bytes` each. Not in place.
  [[nodiscard]] Result<void> all_to_all(const void* in, void* out, std::size_t bytes,
                                        std::uint32_t lane = 0);
  /// The same with own sizes and places: `sends[r]` is sent to rank r, `receives[r]` filled from
  /// it, exactly as long as what it sends.
  [[nodiscard]] Result<void> all_to_all_v(std::span<const std::span<const std::byte>> sends,
                                          std::span<const std::span<std::byte>> receives,
                                          std::uint32_t lane = 0);
  /// `bytes` to `peer`, which calls receive() with as many. Returns when all has been handed over;
  /// eight messages of up to 8 KiB, or one of seven slots, are buffered. Not to itself.
  [[nodiscard]] Result<void> send(const void* data, std::size_t bytes, std::uint32_t peer,
                                  std::uint32_t lane = 0);
  [[nodiscard]] Result<void> receive(void* data, std::size_t bytes, std::uint32_t peer,
                                     std::uint32_t lane = 0);
  /// send() to `to` and receive() from `from` side by side, so that ranks in a cycle do not wait
  /// for each other. From 32 KiB on the receiver fetches what is to be sent from where it lies,
  /// which saves a copy. The ranges do not overlap. A peer may call send() or receive() instead.
  [[nodiscard]] Result<void> send_receive(const void* data, std::size_t bytes, std::uint32_t to,
                                          void* into, std::size_t into_bytes, std::uint32_t from,
                                          std::uint32_t lane = 0);
  /// Returns when every rank has called it; what each wrote before is visible to all after.
  [[nodiscard]] Result<void> barrier(std::uint32_t lane = 0);

  // The same without waiting: a thread of the lane does the operation, after those started before;
  // a wait() that comes first does it itself. At most 64 are started and not done
  // (kResourceExhausted); the blocking operations are refused on the lane meanwhile
  // (kFailedPrecondition). All ranks start the same operations in the same order.
  [[nodiscard]] Result<Request> start_all_reduce(const void* in, void* out, std::size_t count,
                                                 DataType type, ReduceOp op,
                                                 std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_reduce_scatter(const void* in, void* out, std::size_t count,
                                                     DataType type, ReduceOp op,
                                                     std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_all_gather(const void* in, void* out, std::size_t bytes,
                                                 std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_broadcast(void* buffer, std::size_t bytes, std::uint32_t root,
                                                std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_reduce(const void* in, void* out, std::size_t count,
                                             DataType type, ReduceOp op, std::uint32_t root,
                                             std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_all_to_all(const void* in, void* out, std::size_t bytes,
                                                 std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_send(const void* data, std::size_t bytes, std::uint32_t peer,
                                           std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_receive(void* data, std::size_t bytes, std::uint32_t peer,
                                              std::uint32_t lane = 0);
  [[nodiscard]] Result<Request> start_barrier(std::uint32_t lane = 0);

  /// Collective: memory of the same size in every rank, zeroed, mapped by all; all ask for the same
  /// pages. Lives as long as the communicator. No operation may run beside it, on no lane
  /// (kFailedPrecondition). Errors: kInvalidArgument; kResourceExhausted in all ranks when one has
  /// no such memory, which names it and leaves the communicator as it was.
  [[nodiscard]] Result<std::span<std::byte>> allocate(std::size_t bytes,
                                                      const AllocationOptions& options = {});
  /// `offset` bytes into `peer`'s part of the buffer that allocate() returned here.
  [[nodiscard]] Result<std::span<std::byte>> peer_memory(std::span<const std::byte> buffer,
                                                         std::uint32_t peer) const;

  /// Writes `bytes` to where `target`, an address in memory from allocate() here, lies in `peer`'s
  /// memory. The peer takes no part; it sees the bytes after the next put_signal() or barrier().
  [[nodiscard]] Result<void> put(const void* data, void* target, std::size_t bytes,
                                 std::uint32_t peer, std::uint32_t lane = 0);
  /// The same, and then adds one to the count of a signal (0 to 7) from this rank to `peer`. All
  /// that this thread has put there before is visible to who has waited for the count.
  [[nodiscard]] Result<void> put_signal(const void* data, void* target, std::size_t bytes,
                                        std::uint32_t peer, std::uint32_t signal = 0,
                                        std::uint32_t lane = 0);
  /// Returns when `peer` has put at least `count` times, since the communicator began, with this
  /// signal on this lane.
  [[nodiscard]] Result<void> wait_signal(std::uint32_t peer, std::uint64_t count,
                                         std::uint32_t signal = 0, std::uint32_t lane = 0);

  /// Ends all operations of all ranks, now and later, with kAborted. Any thread.
  void abort() noexcept;
  /// Why the communicator is of no more use; nothing while it is.
  [[nodiscard]] std::optional<Error> async_error() const;

  /// Collective among the survivors: a new communicator without the ranks `dead` (in this one's
  /// numbers), in the same order, under the next generation. All survivors name the same ranks.
  /// With none dead: one more communicator of all. At most 8 times in all, whether it succeeded or
  /// not: when another rank was lost meanwhile, again with that one too. Errors: kPeerLost with the
  /// rank, kDeadlineExceeded, kInvalidArgument, kResourceExhausted.
  [[nodiscard]] Result<Communicator> shrink(std::span<const std::uint32_t> dead);
  /// Collective on all ranks: a new communicator for those of one color, ordered by `key`, then by
  /// rank, under the next generation; nothing for a rank without a color. Uses lane 0.
  [[nodiscard]] Result<std::optional<Communicator>> split(std::optional<std::uint32_t> color,
                                                          std::int64_t key = 0);
  /// Where more ranks meet these: one of them makes the place and gives its id to all, old and new.
  [[nodiscard]] Result<Rendezvous> rendezvous() const;
  /// Collective among these and the newcomers, which call create() with the same id, ranks from
  /// size() on, and the same options: a new communicator of `ranks` ranks under the next
  /// generation, in which these keep their numbers. This one stays as it is. Errors: as create().
  [[nodiscard]] Result<Communicator> grow(const UniqueId& id, std::uint32_t ranks);
  /// Ranks whose loss was noticed so far.
  [[nodiscard]] std::vector<std::uint32_t> lost_ranks() const;

  [[nodiscard]] CommunicatorCounters counters() const noexcept;
  /// Who waits for whom since when, a line per rank and lane; of ranks whose recordings this user
  /// can read. The hint of an error kDeadlineExceeded.
  [[nodiscard]] std::string hang_report() const;
  /// Shared memory of this rank, buffers from allocate() not counted.
  [[nodiscard]] std::size_t window_bytes() const noexcept;
  /// Which algorithm all_reduce() takes by size, and why; several lines of text.
  [[nodiscard]] std::string explain(bool registered) const;
  /// The algorithm that a call of this size takes.
  [[nodiscard]] Algorithm choice(std::size_t bytes, bool registered) const;

 private:
  explicit Communicator(std::unique_ptr<exchange::Core> core) noexcept;
  template <class Operation>
  [[nodiscard]] Result<Request> start(std::uint32_t lane, Operation&& operation);
  std::unique_ptr<exchange::Core> core_;
};

}  // namespace imex
