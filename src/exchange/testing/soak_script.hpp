/// A random sequence of operations that all ranks of a communicator draw alike, each compared with
/// the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <imex/communicator.hpp>

#include "testing/ranks.hpp"
#include "testing/reference.hpp"

namespace imex::exchange::testing_kit {

class SoakScript {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::uint32_t lanes = 1;
    bool exact = true;         ///< float sums are in rank order
    std::uint32_t signal = 0;  ///< of no other script of this communicator: its count only grows
  };
  /// `comm` outlives it.
  SoakScript(Communicator& comm, const Options& options)
      : comm_(comm),
        random_(options.seed),
        lanes_(options.lanes),
        exact_(options.exact),
        signal_(options.signal) {}

  /// One to three operations, blocking or started. Errors: of the communicator; kDataLoss where a
  /// result is wrong, with what was called.
  [[nodiscard]] Result<void> step();

 private:
  enum class Kind : std::uint8_t {
    // These can be started.
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kReduce,
    kAllToAll,
    kBarrier,
    // These cannot.
    kAllToAllV,
    kShift,
    kPutSignal,
    kCount,
  };
  struct Call {
    Kind kind = Kind::kBarrier;
    DataType type = DataType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    std::size_t elements = 0;
    std::uint32_t root = 0;
    std::size_t offset = 0;
    bool in_place = false;
    bool registered = false;
    std::uint64_t seed = 0;
  };
  /// A call with its vectors; `in` and `out` point into them.
  struct Prepared {
    Call call;
    std::uint32_t lane = 0;
    reference::Bytes memory;
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::vector<reference::Bytes> inputs;  ///< by rank
  };

  Result<void> allocate();
  [[nodiscard]] Call draw(bool startable, bool first);
  [[nodiscard]] Prepared prepare(const Call& call, std::uint32_t lane);
  Result<void> run(Prepared& prepared);
  Result<Request> start(Prepared& prepared);
  Result<void> verify(const Prepared& prepared) const;
  [[nodiscard]] reference::Bytes wanted(const Prepared& prepared) const;
  /// Those of which nobody else takes the result of in one piece.
  Result<void> all_to_all_v(const Call& call, std::uint32_t lane);
  Result<void> shift(const Call& call, std::uint32_t lane);
  Result<void> put_signal(const Call& call);
  [[nodiscard]] reference::Bytes piece(const Call& call, std::uint32_t from, std::uint32_t to,
                                       std::size_t bytes) const;
  [[nodiscard]] Error wrong(const Call& call, std::string_view what) const;

  Communicator& comm_;
  std::mt19937_64 random_;
  const std::uint32_t lanes_;
  const bool exact_;
  const std::uint32_t signal_;
  std::span<std::byte> area_;  ///< from allocate(): inputs, outputs, what peers put
  std::uint64_t puts_ = 0;
};

}  // namespace imex::exchange::testing_kit
