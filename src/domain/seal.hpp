/// Proofs that only this daemon instance can make: handles, session tokens, ids.
///
/// All are keyed BLAKE2b hashes under the key of the instance, so nothing per export has to be
/// kept: an instance that resumes with the same key makes the same bytes again. The three uses
/// differ in the length of what is hashed, so no proof of one kind is one of another.
#pragma once

#include <optional>

#include "domain/frame.hpp"

namespace imex::domain {

/// A handle's fields as they stand in its first 48 bytes (docs/formats/handle.md).
struct HandleFields {
  ExportId export_id = 0;
  NodeId node = kNoNode;
  std::uint32_t channel = 0;
  std::uint64_t gpu_uid = 0;
  std::uint32_t generation = 0;
  Uuid instance;
  friend bool operator==(const HandleFields&, const HandleFields&) = default;
};

/// Nothing if the padding is not zero. Says nothing about who made the handle.
[[nodiscard]] std::optional<HandleFields> read_handle(const Handle& handle) noexcept;

class Seal {
 public:
  Seal(const Secret& key, const Uuid& domain_id) noexcept;

  [[nodiscard]] Handle seal(const HandleFields& fields) const noexcept;
  /// Whether seal() of this instance made the handle. Takes the same time wherever it differs.
  [[nodiscard]] bool verify(const Handle& handle) const noexcept;

  /// What proves that a client opened the session.
  [[nodiscard]] Secret session_token(SessionId session) const noexcept;
  [[nodiscard]] static bool equal(const Secret& a, const Secret& b) noexcept;

  /// An export or import id: the number in the high half, a tag of session and number in the low
  /// one. A client cannot register an id again that another session was given.
  [[nodiscard]] std::uint64_t make_id(SessionId session, std::uint32_t number) const noexcept;
  [[nodiscard]] bool owns_id(SessionId session, std::uint64_t id) const noexcept;
  [[nodiscard]] static std::uint32_t number_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id >> 32);
  }

 private:
  Secret key_;
  Uuid domain_id_;
};

}  // namespace imex::domain
