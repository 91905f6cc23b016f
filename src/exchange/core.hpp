/// What stands behind a Communicator: the own window, the peers' windows, the lanes on them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include <imex/communicator.hpp>

#include "algorithm/collectives.hpp"
#include "algorithm/swap.hpp"
#include "base/mutex.hpp"
#include "buffers.hpp"
#include "call_facts.hpp"
#include "connector.hpp"
#include "lane.hpp"
#include "locality.hpp"
#include "peer_watch.hpp"
#include "recorder.hpp"
#include "tuner.hpp"

namespace imex::exchange {

[[nodiscard]] inline SteadyTime deadline_after(std::chrono::milliseconds timeout) {
  return timeout.count() == 0 ? kNoDeadline : std::chrono::steady_clock::now() + timeout;
}

/// FNV-1a over the words' bytes.
[[nodiscard]] inline std::uint64_t digest_of(std::span<const std::uint64_t> words) noexcept {
  std::uint64_t digest = 0xcbf2'9ce4'8422'2325ULL;
  for (const std::uint64_t word : words) {
    for (unsigned shift = 0; shift != 64; shift += 8) {
      digest = (digest ^ (word >> shift & 0xffU)) * 0x100'0000'01b3ULL;
    }
  }
  return digest;
}
[[nodiscard]] inline std::uint64_t digest_of(std::initializer_list<std::uint64_t> words) noexcept {
  return digest_of(std::span(words.begin(), words.size()));
}

/// Who this end is.
struct Identity {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t generation = 1;
};

class MeetingPlace;

/// One rank's end. See Communicator for what the operations promise and which may run beside each
/// other.
class Core {
 public:
  static Result<std::unique_ptr<Core>> meet(std::shared_ptr<Connector> connector,
                                            const UniqueId& id, std::uint32_t rank,
                                            std::uint32_t ranks, const CommunicatorOptions& options,
                                            std::function<Result<void>()> go_on);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  [[nodiscard]] const Identity& identity() const noexcept { return who_; }
  /// Of shared memory of this rank, buffers not counted.
  [[nodiscard]] std::size_t window_bytes() const noexcept;
  /// Of lane 0, where the trial of a size has ended; else what the model says.
  [[nodiscard]] Algorithm choice(std::size_t bytes, bool registered) const noexcept;
  [[nodiscard]] std::string explain(bool registered) const;

  /// Elements [0, count) of the caller's vectors.
  struct Vectors {
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t count = 0;
    DataType type = DataType::kUint8;
    ReduceOp op = ReduceOp::kSum;
  };
  Result<void> all_reduce(const Vectors& v, std::uint32_t lane);
  Result<void> reduce_scatter(const Vectors& v, std::uint32_t lane);
  Result<void> reduce(const Vectors& v, std::uint32_t root, std::uint32_t lane);
  Result<void> broadcast(std::span<std::byte> data, std::uint32_t root, std::uint32_t lane);
  Result<void> all_gather(const std::byte* in, std::byte* out, std::size_t bytes,
                          std::uint32_t lane);
  Result<void> all_to_all(const std::byte* in, std::byte* out, std::size_t bytes,
                          std::uint32_t lane);
  Result<void> all_to_all_v(const Parts& parts, std::uint32_t lane);
  Result<void> send(std::span<const std::byte> data, std::uint32_t peer, std::uint32_t lane);
  Result<void> receive(std::span<std::byte> data, std::uint32_t peer, std::uint32_t lane);
  struct Transfer {
    std::span<const std::byte> data;
    std::uint32_t to = 0;
    std::span<std::byte> into;
    std::uint32_t from = 0;
  };
  Result<void> send_receive(const Transfer& transfer, std::uint32_t lane);
  Result<void> barrier(std::uint32_t lane);

  Result<void> put(std::span<const std::byte> data, std::byte* target, std::uint32_t peer,
                   std::optional<std::uint32_t> signal, std::uint32_t lane);
  Result<void> wait_signal(std::uint32_t peer, std::uint64_t count, std::uint32_t signal,
                           std::uint32_t lane);

  Result<std::span<std::byte>> allocate(std::size_t bytes, const AllocationOptions& options);
  Result<std::span<std::byte>> peer_memory(std::span<const std::byte> buffer,
                                           std::uint32_t peer) const;
  /// Runs `operation` on this object after those that were started on the lane before.
  Result<std::shared_ptr<StartedOperation>> start(std::uint32_t lane,
                                                  std::function<Result<void>()> operation);
  /// The queue of a lane that exists.
  [[nodiscard]] OperationQueue& started(std::uint32_t lane) noexcept {
    return lanes_[lane]->started;
  }
  void abort() noexcept;
  [[nodiscard]] std::optional<Error> async_error() const;
  [[nodiscard]] std::vector<std::uint32_t> lost_ranks() const;
  Result<std::unique_ptr<Core>> shrink(std::span<const std::uint32_t> dead);
  /// Null for a rank without a color.
  Result<std::unique_ptr<Core>> split(std::optional<std::uint32_t> color, std::int64_t key);
  /// Where the ranks of the next generation meet.
  Result<std::shared_ptr<MeetingPlace>> next_meeting() const;
  Result<std::unique_ptr<Core>> grow(const UniqueId& id, std::uint32_t ranks);
  [[nodiscard]] CommunicatorCounters counters() const noexcept;
  [[nodiscard]] std::string hang_report() const;

 private:
  /// What all_reduce in two levels needs: memory beside the windows, and lanes on it.
  struct TwoLevels {
    GroupShape shape;
    std::size_t chunk_bytes_max = 0;
    TuningTable among_leaders;
    std::shared_ptr<Allocation> memory;
    Publication published;
    std::vector<PeerMemory> peers;  ///< by rank; those near, and all leaders for a leader
    struct Pair {
      std::unique_ptr<Lane> group, leaders;
    };
    std::vector<Pair> lanes;
  };
  /// Where one of the two lies in that memory.
  struct Level {
    const Layout& layout;
    std::size_t offset = 0;
    std::uint32_t lane = 0;
  };
  /// Swaps names with the other ranks: gives the own one, returns all by rank.
  using SwapNames = std::function<Result<std::vector<MemoryName>>(const MemoryName&)>;
  class Turn;

  Core(std::shared_ptr<Connector> connector, const Identity& who,
       const CommunicatorOptions& options, const Layout& layout);
  static Result<std::unique_ptr<Core>> assemble(std::shared_ptr<Connector> connector,
                                                const Identity& who,
                                                const CommunicatorOptions& options,
                                                const SwapNames& swap);
  Result<void> make_window();
  Result<void> open_windows(const std::vector<MemoryName>& names);
  Result<void> check_window(const WindowHeader& header, std::uint32_t rank) const;
  Result<void> watch_peers();
  void make_lanes();
  void make_recorder();
  void link_lane(Lane& lane, std::uint32_t number);
  [[nodiscard]] Locality own_locality() const;
  /// A collective of all ranks. Does nothing where they form no groups.
  Result<void> make_two_levels(std::span<const Locality> by_rank);
  [[nodiscard]] std::unique_ptr<Lane> make_level(const Lane& above,
                                                 std::span<const std::uint32_t> members,
                                                 const Level& level) const;
  /// Its private memory, through the kernel.
  [[nodiscard]] bool may_read(std::uint32_t rank) const;
  Result<void> agree_on_costs(const std::stop_token& stop = {});
  Result<Costs> measure_costs(Costs costs);

  [[nodiscard]] WindowHeader& header() const noexcept;
  /// Within an operation, and before the communicator is complete; else see reach().
  [[nodiscard]] WindowHeader& header_of(std::uint32_t rank) const noexcept;
  /// Calls `use` with the rank's header, unless its memory was withdrawn. Any thread.
  template <class Use>
  bool reach(std::uint32_t rank, Use&& use) const {
    const auto hold = begin_hold(peers_[rank]);  // the own entry is empty
    if (hold) use(header_of(rank));
    return hold.has_value();
  }
  /// Calls `use` with the header of every peer whose window is mapped and not withdrawn.
  template <class Use>
  void tell_peers(Use&& use) const {
    for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
      if (rank != who_.rank && peers_[rank].data != nullptr) reach(rank, use);
    }
  }
  [[nodiscard]] std::uint64_t options_digest() const noexcept;
  /// 0, or why the communicator is of no more use.
  [[nodiscard]] std::uint64_t abort_word() const noexcept;
  void lose(std::uint32_t rank) noexcept;
  void abort_all(std::uint64_t word) noexcept;
  // The checks of every operation are inline, their errors are not.
  [[nodiscard]] Result<void> check_lane(std::uint32_t lane) const {
    if (lane < lanes_.size()) [[likely]]
      return {};
    return no_lane(lane);
  }
  /// Another rank of this communicator; `what` it is asked to do.
  [[nodiscard]] Result<void> check_peer(std::uint32_t peer, std::string_view what) const {
    if (peer < who_.ranks && peer != who_.rank) [[likely]]
      return {};
    return no_peer(peer, what);
  }
  [[nodiscard]] Result<void> no_lane(std::uint32_t lane) const;
  [[nodiscard]] Result<void> no_peer(std::uint32_t peer, std::string_view what) const;
  [[nodiscard]] Error wait_error(const Lane& caller, const CallFacts& call);
  [[nodiscard]] Result<void> finish(Lane& lane, const CallFacts& call, Algorithm algorithm,
                                    bool done);
  [[nodiscard]] Result<void> swap_equal_parts(Lane& lane, const CallFacts& facts,
                                              const Parts& parts);
  [[nodiscard]] Result<void> compare_calls(Lane& lane, const CallFacts& call);
  /// Keeps imported memory in place for an operation.
  [[nodiscard]] Result<void> hold_imports(Lane& lane) const;
  /// `all_know`: every rank sees the error.
  Result<std::span<std::byte>> allocate_everywhere(std::size_t bytes,
                                                   const AllocationOptions& options,
                                                   bool& all_know);
  /// The own part, published; the error names this rank.
  [[nodiscard]] Result<Buffer> make_buffer(std::size_t bytes, const AllocationOptions& options);
  /// What decides which algorithms can serve a call, and which trial is its own.
  struct Kind {
    bool registered = false;
    bool two_levels = false;
    [[nodiscard]] std::size_t index() const noexcept {
      return (registered ? 1U : 0U) + (two_levels ? 2U : 0U);
    }
  };
  [[nodiscard]] Kind kind_of(bool registered, ReduceOp op) const noexcept {
    return {.registered = registered, .two_levels = two_levels_ != nullptr && op != ReduceOp::kAvg};
  }
  [[nodiscard]] bool can(Algorithm algorithm, std::size_t bytes, Kind kind) const noexcept;
  Result<void> try_all_reduce(Lane& lane, Trial& trial, const CallFacts& facts, Kind kind,
                              const std::function<bool(Algorithm)>& run);
  bool run_all_reduce(Lane& lane, Algorithm algorithm, const ReduceCall& call, const Place& in,
                      const Place& out);
  /// What ends a wait for a notice, beside the deadline.
  enum class Ends : std::uint8_t { kLossOnly, kLossOrAbort };
  /// What a notice says.
  struct Said {
    std::uint64_t digest = 0;
    MemoryName name{};
  };
  using Look = std::function<std::optional<Said>(const WindowHeader& peer)>;
  Result<Said> await_notice(std::uint32_t rank, Ends ends, const Look& look, SteadyTime deadline,
                            const std::stop_token& stop = {}) const;
  [[nodiscard]] SteadyTime wait_deadline() const { return deadline_after(options_.timeout); }
  /// Memory of a rank that took part a moment ago could not be opened, as `found` says. Where it is
  /// no more: because the rank is lost, or has been told of an abort before this one.
  [[nodiscard]] Error why_gone(std::uint32_t rank, Ends ends, Error found) const;
  /// A collective of all ranks: equally often in each.
  Result<std::vector<MemoryName>> swap_notices(std::uint64_t digest, const MemoryName& name,
                                               Ends ends, const std::stop_token& stop = {});
  /// Among `members`, who ask for the same thing.
  Result<std::vector<MemoryName>> swap_shrink_notices(std::span<const std::uint32_t> members,
                                                      Notice& own, std::uint64_t digest,
                                                      const MemoryName& name);
  [[nodiscard]] bool is_lost(std::uint32_t rank) const noexcept;
  /// It has ended its communicator in order.
  [[nodiscard]] bool has_departed(std::uint32_t rank) const noexcept;

  const Identity who_;
  const CommunicatorOptions options_;
  const bool check_;
  const Layout layout_;
  // Order matters: what is published ends before what the connector watches over.
  const std::shared_ptr<Connector> connector_;
  const AbortCell* const watched_cell_;  // of the connector, which each operation need not ask
  std::shared_ptr<Allocation> window_;
  Publication published_;
  std::vector<PeerMemory> peers_;  // by rank; the own one is empty
  std::uint64_t group_ = 0;        ///< of rank 0, its nonce: the same in all ranks
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<TwoLevels> two_levels_;  // null where ranks form no groups, or may not use them
  Buffers buffers_;  // changed by allocate() only, which no operation may run beside
  TuningTable tuning_;
  std::uint64_t notices_ = 0;
  std::uint32_t shrinks_ = 0;  ///< tried

  std::shared_ptr<PeerWatch> watch_;
  std::vector<std::uint64_t> watched_;
  std::array<std::atomic<std::uint64_t>, kRanksMax / 64> lost_{};  // bits; set by the watch
};

}  // namespace imex::exchange
