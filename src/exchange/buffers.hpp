/// Memory of the same size in every rank, mapped by all: what allocate() has made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "connector.hpp"

namespace imex::exchange {

struct Buffer {
  std::shared_ptr<Allocation> own;
  Publication published;
  std::vector<PeerMemory> peers;  ///< by rank; the own one is empty
  std::vector<std::byte*> bases;  ///< by rank
  std::size_t bytes = 0;
};

/// Where something lies in a buffer.
struct Place {
  const Buffer* buffer = nullptr;  ///< null: in none
  std::uint32_t id = 0;
  std::size_t offset = 0;

  /// Which buffer, and where: for peers.
  [[nodiscard]] std::uint64_t word() const noexcept;
};

/// Of one rank. Not thread-safe against add().
class Buffers {
 public:
  static constexpr std::size_t kMax = 65'536;  ///< a place in one word has 16 bits for which

  explicit Buffers(std::uint32_t rank) noexcept : rank_(rank) {}

  void add(Buffer buffer) { all_.push_back(std::move(buffer)); }
  [[nodiscard]] const std::vector<Buffer>& all() const noexcept { return all_; }

  /// Of memory of this rank.
  [[nodiscard]] Place find(const void* data, std::size_t bytes) const noexcept;
  /// What `rank` has told by Place::word(), mapped here. Null unless `bytes` there lie inside a
  /// buffer.
  [[nodiscard]] std::byte* resolve(std::uint64_t word, std::uint32_t rank,
                                   std::size_t bytes) const noexcept;

 private:
  const std::uint32_t rank_;
  std::vector<Buffer> all_;
};

}  // namespace imex::exchange
