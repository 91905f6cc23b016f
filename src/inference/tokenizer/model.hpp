/// From a piece of text to ids: the three models, each immutable after loading.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "merging.hpp"
#include "piece_trie.hpp"
#include "vocabulary.hpp"

namespace imex::inference {

using Ids = std::vector<std::uint32_t>;

/// What becomes of characters that are no token.
struct UnknownRule {
  std::optional<std::uint32_t> unknown;                                ///< none: they vanish
  bool fuse = false;                                                   ///< one for a run of them
  std::optional<std::array<std::uint32_t, 256>> bytes = std::nullopt;  ///< tokens of their bytes
};

/// (left id, right id) -> rank and merged id, by open addressing.
class PairTable {
 public:
  /// Keeps the first of equal pairs, as ranks only grow.
  void add(std::uint32_t left, std::uint32_t right, std::uint32_t rank, std::uint32_t merged);
  void reserve(std::size_t pairs);
  [[nodiscard]] std::optional<Merge> find(std::uint32_t left, std::uint32_t right) const noexcept;

  struct Entry {
    std::uint32_t left = 0, right = 0, rank = 0;
  };
  /// In no order.
  [[nodiscard]] std::vector<Entry> all() const;

 private:
  struct Slot {
    std::uint64_t key = UINT64_MAX;  // free: no two ids are that large
    std::uint32_t rank = 0, merged = 0;
  };
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const noexcept;
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

/// BPE with a list of merges: of bytes, or of characters.
struct PairBpe {
  PairTable merges;
  std::optional<std::array<std::uint32_t, 256>> byte_tokens;  ///< set: symbols are bytes
  bool whole_pieces_first = false;  ///< a piece that is a token is not looked into
  UnknownRule unknown;

  void encode(const Vocabulary& vocabulary, std::string_view piece, Ids& out) const;
};

/// SentencePiece's BPE: any pair whose text is a token merges, the highest score first.
struct ScoreBpe {
  UnknownRule unknown;
  /// Tokens that splitting must not leave behind: they are taken apart again.
  std::vector<bool> unused;

  void encode(const Vocabulary& vocabulary, std::string_view piece, Ids& out) const;
};

/// SentencePiece's Unigram: the cut whose scores sum to the most, compared in double as in the
/// original. O(length of a piece of text times the longest token).
struct Unigram {
  UnknownRule unknown;
  PieceTrie pieces;          ///< tokens that text is cut into: no special ones, no bytes
  double unknown_score = 0;  ///< ten below the lowest score

  void encode(const Vocabulary& vocabulary, std::string_view piece, Ids& out) const;
};

using Model = std::variant<PairBpe, ScoreBpe, Unigram>;

}  // namespace imex::inference
