/// Memory that a generator and its ranks share: requests go one way, tokens and reports the other.
///
/// Made before the ranks are forked, so that all have it at the same address. One request at a
/// time. Rank 0 writes a token and counts it; the generator looks every millisecond. So no rank
/// makes a system call for a token.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include <imex/communicator.hpp>

#include "inference/generation/generator.hpp"
#include "os/memory.hpp"

namespace imex::inference {

/// An Error in shared memory; longer texts are cut.
class BoardError {
 public:
  void set(const Error& error) noexcept;
  [[nodiscard]] Error get() const;

 private:
  Errc code_ = Errc::kOk;
  std::uint32_t rank_ = kNoRank;
  std::array<char, 512> message_{}, hint_{};
};

enum class RankState : std::uint32_t { kStarting, kReady, kFailed, kEnded };

/// What one rank says. `error` is written before `state`, the rest before `reports`.
struct alignas(64) RankBoard {
  std::atomic<RankState> state{RankState::kStarting};
  std::atomic<std::uint32_t> reports{0};  ///< number of the request that it reported last
  BoardError error;
  RankReport report;
};

enum class RequestKind : std::uint32_t { kGenerate, kScore };

struct BoardRequest {
  RequestKind kind = RequestKind::kGenerate;
  std::uint32_t max_tokens = 0;
  std::uint32_t prompt_tokens = 0;  ///< of Board::prompt()
  std::uint32_t stop_count = 0;
  std::uint32_t option_words = 0;  ///< of Board::options()
  bool measures_reading = false;
  bool reuses_cache = false;
  std::array<std::uint32_t, 32> stop_ids{};
};

/// What became of a request.
struct BoardAnswer {
  bool refused = false;  ///< could not be done: see `refusal`; the ranks go on
  BoardError refusal;
  FinishReason reason = FinishReason::kLength;
  std::uint32_t cached_tokens = 0;
  std::uint64_t prefill_ns = 0, decode_ns = 0;
};

struct BoardHead {
  UniqueId id;                             ///< where the ranks meet
  std::atomic<std::uint32_t> has_id{0};    ///< 1: it is there
  std::atomic<std::uint32_t> requests{0};  ///< futex; number of the newest
  std::atomic<std::uint32_t> shut_down{0};
  std::atomic<std::uint32_t> called_off{0};          ///< number of a request that is to end early
  alignas(64) std::atomic<std::uint64_t> tokens{0};  ///< of the request, so far
  std::atomic<std::uint32_t> reporting{0};           ///< number of the one to report about
  std::atomic<std::uint32_t> answered{0};            ///< number of the newest that has ended
  BoardRequest request;
  BoardAnswer answer;
};

class Board {
 public:
  static constexpr std::uint32_t kOptionWords = 4096;

  /// Errors: kResourceExhausted.
  [[nodiscard]] static Result<Board> create(std::uint32_t ranks, std::uint32_t context);

  [[nodiscard]] BoardHead& head() const noexcept { return *head_; }
  [[nodiscard]] RankBoard& rank(std::uint32_t rank) const noexcept { return ranks_[rank]; }
  [[nodiscard]] std::span<std::uint32_t> prompt() const noexcept { return prompt_; }
  [[nodiscard]] std::span<GeneratedToken> tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::span<double> scores() const noexcept { return scores_; }
  [[nodiscard]] std::span<std::uint32_t> options() const noexcept { return options_; }

 private:
  os::Mapping memory_;
  BoardHead* head_ = nullptr;
  RankBoard* ranks_ = nullptr;
  std::span<std::uint32_t> prompt_, options_;
  std::span<GeneratedToken> tokens_;
  std::span<double> scores_;
};

}  // namespace imex::inference
