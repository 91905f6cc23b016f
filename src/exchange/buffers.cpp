#include "buffers.hpp"

namespace imex::exchange {

namespace {

constexpr unsigned kOffsetBits = 48;

}  // namespace

std::uint64_t Place::word() const noexcept { return std::uint64_t{id} << kOffsetBits | offset; }

Place Buffers::find(const void* data, std::size_t bytes) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::uint32_t id = 0; id != all_.size(); ++id) {
    const Buffer& buffer = all_[id];
    const auto base = reinterpret_cast<std::uintptr_t>(buffer.bases[rank_]);
    const std::size_t offset = address - base;
    if (address >= base && offset <= buffer.bytes && bytes <= buffer.bytes - offset) {
      return {.buffer = &buffer, .id = id, .offset = offset};
    }
  }
  return {};
}

std::byte* Buffers::resolve(std::uint64_t word, std::uint32_t rank,
                            std::size_t bytes) const noexcept {
  const std::uint64_t offset = word & ((std::uint64_t{1} << kOffsetBits) - 1);
  const std::uint64_t id = word >> kOffsetBits;
  if (id >= all_.size()) return nullptr;
  const Buffer& buffer = all_[id];
  if (bytes > buffer.bytes || offset > buffer.bytes - bytes) return nullptr;
  return buffer.bases[rank] + offset;
}

}  // namespace imex::exchange
