/// One rank of a measurement: its vectors, the calls, their times and results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <imex/session.hpp>

#include "bench/exchange.hpp"
#include "exchange/input_pattern.hpp"
#include "exchange/page_kind.hpp"
#include "exchange/ruler.hpp"

namespace imex::bench {

/// What rank 0 knows of one size.
struct SizeOutcome {
  Samples samples;  ///< ns, of the slowest rank
  double round_trip_ns[2]{};
  LineCosts costs;
  std::string_view algorithm;
  Tally tally;  ///< of all ranks
  std::uint32_t wrong_rank = 0;
};

class Participant {
 public:
  Participant(const TickBoard& board, const ExchangeOptions& options, std::uint32_t rank,
              std::size_t cores);

  /// Collective: joins the communicator, makes the vectors. Before all else.
  Result<void> join();

  /// Collective. Only rank 0 fills the outcome in.
  Result<SizeOutcome> measure(std::uint64_t bytes);

  [[nodiscard]] Communicator& comm() noexcept { return *comm_; }
  [[nodiscard]] Ruler& ruler() noexcept { return ruler_; }
  /// Of all ranks' vectors.
  Result<PageKind> page_kind();

 private:
  Result<Communicator> meet();
  Result<void> make_vectors();
  Result<std::byte*> make_vector(std::size_t bytes, bool registered, PrivateMemory& memory);

  /// Where results must be, and what.
  struct Piece {
    std::byte* at;
    std::size_t bytes;
    std::uint32_t from;  ///< rank whose bytes they are; of no meaning for reductions
    std::size_t first;   ///< byte of the whole vector
  };
  [[nodiscard]] std::vector<Piece> result_pieces() const;

  void resize(std::uint64_t bytes);
  /// The operation itself: all that is timed.
  Result<void> call();
  /// Writes the input of the next call, and bytes that are no result where results go.
  Result<void> rewrite(bool spoil_result);
  Result<std::int64_t> timed_call(bool check);
  Result<void> compare();

  /// `count` calls, the times on the board.
  Result<void> run_block(std::uint32_t count, bool check);
  Result<std::uint32_t> warm_up();
  /// Empty in all ranks but 0.
  Result<Samples> sample(std::uint32_t count);
  [[nodiscard]] Samples slowest(std::uint32_t count) const;
  Result<void> collect(SizeOutcome& outcome);
  [[nodiscard]] std::string_view algorithm_since(const CommunicatorCounters& before) const;

  const ExchangeOptions& options_;
  const OperationFacts& facts_;
  Ruler ruler_;
  const std::uint32_t rank_, next_, previous_;
  const bool into_peer_;  ///< results come by a put, which takes registered memory only
  const ReducedPattern reduced_;
  const MovedPattern moved_;
  std::optional<Session> session_;  // where ranks meet through a daemon
  std::optional<Communicator> comm_;
  PrivateMemory memory_, memory_out_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::size_t count_ = 0, share_bytes_ = 0, share_count_ = 0;
  std::uint64_t calls_ = 0, signals_ = 0;
  Tally tally_;  // of this size
};

}  // namespace imex::bench
