#include "model.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "utf8.hpp"

namespace imex::inference {

namespace {

/// Appends what stands for `character`, which is no token. `fused`: the token before came from
/// here.
void append_unknown(const UnknownRule& rule, std::string_view character, bool fused, Ids& out) {
  if (rule.bytes) {
    for (const char byte : character)
      out.push_back((*rule.bytes)[static_cast<unsigned char>(byte)]);
  } else if (rule.unknown && !(rule.fuse && fused)) {
    out.push_back(*rule.unknown);
  }
}

constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();

/// The characters of a piece as symbols; kNoToken where one is none.
std::vector<Symbol> character_symbols(const Vocabulary& vocabulary, std::string_view piece) {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t bytes = first_character(piece.substr(at)).bytes;
    const auto id = vocabulary.find_ordinary(piece.substr(at, bytes));
    symbols.push_back({at, bytes, id.value_or(kNoToken)});
    at += bytes;
  }
  return symbols;
}

}  // namespace

std::size_t PairTable::slot_of(std::uint64_t key) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (key * 0x9e37'79b9'7f4a'7c15ULL >> 20U) & mask;
  while (slots_[at].key != UINT64_MAX && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

void PairTable::reserve(std::size_t pairs) {
  std::size_t wanted = 1024;
  while (wanted < pairs * 2) wanted *= 2;
  if (wanted <= slots_.size()) return;
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(wanted));
  for (const Slot& slot : old) {
    if (slot.key != UINT64_MAX) slots_[slot_of(slot.key)] = slot;
  }
}

void PairTable::add(std::uint32_t left, std::uint32_t right, std::uint32_t rank,
                    std::uint32_t merged) {
  reserve(count_ + 1);
  const std::uint64_t key = std::uint64_t{left} << 32U | right;
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == key) return;
  slot = {key, rank, merged};
  ++count_;
}

std::optional<Merge> PairTable::find(std::uint32_t left, std::uint32_t right) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(std::uint64_t{left} << 32U | right)];
  if (slot.key == UINT64_MAX) return std::nullopt;
  return Merge{static_cast<double>(slot.rank), slot.merged};
}

std::vector<PairTable::Entry> PairTable::all() const {
  std::vector<Entry> entries;
  entries.reserve(count_);
  for (const Slot& slot : slots_) {
    if (slot.key == UINT64_MAX) continue;
    entries.push_back({static_cast<std::uint32_t>(slot.key >> 32U),
                       static_cast<std::uint32_t>(slot.key), slot.rank});
  }
  return entries;
}

void PairBpe::encode(const Vocabulary& vocabulary, std::string_view piece, Ids& out) const {
  if (whole_pieces_first) {
    if (const auto id = vocabulary.find_ordinary(piece)) return out.push_back(*id);
  }
  std::vector<Symbol> symbols;
  if (byte_tokens) {
    symbols.reserve(piece.size());
    for (std::size_t at = 0; at < piece.size(); ++at) {
      symbols.push_back({at, 1, (*byte_tokens)[static_cast<unsigned char>(piece[at])]});
    }
  } else {
    // Unknown characters become tokens before merging, for merges may name those tokens.
    bool fused = false;
    Ids replaced;
    for (const Symbol& symbol : character_symbols(vocabulary, piece)) {
      if (symbol.id != kNoToken) {
        symbols.push_back(symbol);
        fused = false;
        continue;
      }
      replaced.clear();
      append_unknown(unknown, piece.substr(symbol.begin, symbol.bytes), fused, replaced);
      for (const std::uint32_t id : replaced) symbols.push_back({symbol.begin, symbol.bytes, id});
      fused = true;
    }
  }
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) {
    return merges.find(left.id, right.id);
  });
  for (const Symbol& symbol : symbols) {  // what is no token by now is a byte without one
    const std::optional<std::uint32_t> id =
        symbol.id == kNoToken ? unknown.unknown : std::optional(symbol.id);
    if (id) out.push_back(*id);
  }
}

namespace {

/// Puts a token that must not be used back into the two that made it, and those likewise.
class Resegment {
 public:
  explicit Resegment(const ScoreBpe& model) noexcept : model_(model) {}

  [[nodiscard]] bool unused(std::uint32_t id) const noexcept {
    return id < model_.unused.size() && model_.unused[id];
  }
  void remember(std::uint32_t merged, std::uint32_t left, std::uint32_t right) {
    const bool whole = left != kNoToken && right != kNoToken;
    if (unused(merged) && whole) parts_.insert_or_assign(merged, std::pair(left, right));
  }
  void append(std::uint32_t id, Ids& out) const {
    const auto found = parts_.find(id);
    if (found == parts_.end()) return out.push_back(id);
    append(found->second.first, out);  // parts are shorter texts, so this ends
    append(found->second.second, out);
  }

 private:
  const ScoreBpe& model_;
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> parts_;
};

}  // namespace

void ScoreBpe::encode(const Vocabulary& vocabulary, std::string_view piece, Ids& out) const {
  std::vector<Symbol> symbols = character_symbols(vocabulary, piece);
  Resegment taken_apart(*this);
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const auto id = vocabulary.find_ordinary(piece.substr(left.begin, left.bytes + right.bytes));
    if (!id) return std::nullopt;
    taken_apart.remember(*id, left.id, right.id);
    return Merge{-vocabulary.score(*id), *id};
  });
  bool fused = false;
  for (const Symbol& symbol : symbols) {
    if (symbol.id == kNoToken) {
      append_unknown(unknown, piece.substr(symbol.begin, symbol.bytes), fused, out);
    } else {
      taken_apart.append(symbol.id, out);
    }
    fused = symbol.id == kNoToken;
  }
}

void Unigram::encode(const Vocabulary& vocabulary, std::string_view piece, Ids& out) const {
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
    std::uint32_t id = kNoToken;
  };
  std::vector<Best> best;  // of all cuts that end there
  best.push_back({.score = 0});
  best.resize(piece.size() + 1);
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t character = first_character(piece.substr(at)).bytes;
    const auto offer = [&](std::size_t bytes, double score, std::uint32_t id) {
      Best& end = best[at + bytes];
      if (best[at].score + score > end.score) end = {best[at].score + score, at, id};
    };
    bool single = false;
    pieces.for_each_prefix(piece.substr(at), [&](std::size_t bytes, std::uint32_t id) {
      offer(bytes, vocabulary.score(id), id);
      single = single || bytes == character;
    });
    if (!single) offer(character, unknown_score, kNoToken);
    at += character;
  }
  std::vector<Symbol> cut;
  for (std::size_t end = piece.size(); end != 0; end = best[end].begin) {
    cut.push_back({best[end].begin, end - best[end].begin, best[end].id});
  }
  bool fused = false;
  for (auto symbol = cut.rbegin(); symbol != cut.rend(); ++symbol) {
    if (symbol->id == kNoToken) {
      append_unknown(unknown, piece.substr(symbol->begin, symbol->bytes), fused, out);
    } else {
      out.push_back(symbol->id);
    }
    fused = symbol->id == kNoToken;
  }
}

}  // namespace imex::inference
