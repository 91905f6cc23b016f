/// How ranks reach each other's memory: directly, or through the node daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>

#include <imex/allocation.hpp>
#include <imex/session.hpp>

#include "layout.hpp"

namespace imex::exchange {

/// A peer's memory, mapped here for as long as `owner` lives.
struct PeerMemory {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<const void> owner;
  bool local = false;    ///< it belongs to a thread of this process
  std::int32_t pid = 0;  ///< of the process that made it, where that is known to be the one
  std::uint64_t start_ticks = 0;
  /// The memory may be withdrawn: it is touched under a hold only, see begin_hold().
  std::shared_ptr<Import> import;
};

/// Keeps a peer's memory in place for 50 ms at least. Empty where nobody can withdraw it.
using MemoryHold = std::optional<Import::Operation>;
/// Errors: kRevoked.
[[nodiscard]] Result<MemoryHold> begin_hold(const PeerMemory& memory);

/// Memory that has a name. The name serves for as long as this lives.
struct Publication {
  MemoryName name{};
  std::shared_ptr<const void> owner;
};

/// Gives memory names that other ranks can open, and opens theirs. Ranks that are threads of one
/// process share its mapping. Thread-safe.
class Connector {
 public:
  Connector() = default;
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  virtual ~Connector() = default;

  [[nodiscard]] virtual Result<Publication> publish(const std::shared_ptr<Allocation>& memory) = 0;
  /// Errors: kNotFound (its process is gone, or not visible here), kPermissionDenied, kDataLoss
  /// (not the memory that was named), kInvalidArgument (no name, or one of another kind).
  [[nodiscard]] virtual Result<PeerMemory> open(const MemoryName& name, std::size_t size_bytes) = 0;
  /// Trips when a peer is lost or its memory withdrawn; null where nobody watches.
  [[nodiscard]] virtual const AbortCell* abort_cell() const noexcept { return nullptr; }
  /// Of the same kind, for another communicator: with an abort cell of its own.
  [[nodiscard]] virtual Result<std::shared_ptr<Connector>> another(std::uint32_t rank) = 0;
};

/// Processes of one user that see each other's /proc.
[[nodiscard]] std::shared_ptr<Connector> direct_connector();
/// Through the daemon and the session's channel; keeps the session open. `rank`: the own one, told
/// to the others when this process is lost.
[[nodiscard]] Result<std::shared_ptr<Connector>> session_connector(const Session& session,
                                                                   std::uint32_t rank);

/// Name: a trivially copyable struct that begins with a magic number.
template <class Name>
[[nodiscard]] MemoryName pack_name(const Name& name) noexcept {
  static_assert(std::is_trivially_copyable_v<Name> && sizeof(Name) <= sizeof(MemoryName));
  MemoryName packed{};
  std::memcpy(packed.bytes.data(), &name, sizeof name);
  return packed;
}
/// Errors: kInvalidArgument, with `hint`.
template <class Name>
[[nodiscard]] Result<Name> unpack_name(const MemoryName& packed, std::uint64_t magic,
                                       const char* hint) {
  Name name;
  std::memcpy(&name, packed.bytes.data(), sizeof name);
  if (name.magic == magic) return name;
  return tl::unexpected(
      Error{Errc::kInvalidArgument, "open memory of a rank: these bytes are no name", hint});
}
/// Errors: kDataLoss.
[[nodiscard]] Result<void> check_size(std::size_t found_bytes, std::size_t wanted_bytes);

/// Memory that this process has published, by a number that no other has: its threads share one
/// mapping.
[[nodiscard]] std::uint64_t remember_local(const std::shared_ptr<Allocation>& memory);
/// Nothing when another process published it, or it has ended.
[[nodiscard]] std::optional<PeerMemory> find_local(std::uint64_t nonce);

}  // namespace imex::exchange
