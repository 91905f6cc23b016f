/// Errors as values: every function of Imex that can fail in operation returns Result<T>.
///
///     imex::Result<imex::Allocation> memory = imex::Allocation::create(1 << 21);
///     if (!memory) { std::cerr << memory.error().to_string() << '\n'; return 1; }
///     use(memory->data());
///
/// Nothing in Imex throws across a public function; running out of memory terminates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <imex/export.h>
#include <tl/expected.hpp>

namespace imex {

/// One list of error codes for the product. The numbers travel on sockets and in the C API: they
/// are never changed and never reused.
enum class Errc : std::uint16_t {
  kOk = 0,                  ///< only inside messages that carry a status; never in an Error
  kInvalidArgument = 1,     ///< wrong whatever the state of the system; mend the call
  kNotFound = 2,            ///< no such object: never there, or ended
  kAlreadyExists = 3,       ///< the name or number is taken
  kPermissionDenied = 4,    ///< known caller, but not allowed; also every forged or foreign handle
  kResourceExhausted = 5,   ///< a limit, a quota, descriptors, disk: free something and retry
  kFailedPrecondition = 6,  ///< the system is in the wrong state; retrying alone does not help
  kAborted = 7,             ///< the user (or a peer's user) aborted the operation
  kDeadlineExceeded = 8,    ///< the deadline passed first; the operation may still take effect
  kUnavailable = 9,         ///< the other side cannot be reached now; retrying later may help
  kPeerLost = 10,           ///< a process or node that took part is gone; Error::rank names it
  kRevoked = 11,            ///< the fabric withdrew the memory: a GPU left the partition
  kStale = 12,              ///< handle of an earlier generation or of an ended daemon instance
  kDataLoss = 13,           ///< bytes are damaged: checksum, magic or length do not fit
  kUnsupported = 14,        ///< this machine, kernel or build cannot do it
  kVersionMismatch = 15,    ///< the two sides share no protocol version
  kInternal = 16,           ///< a bug in Imex or a system call that cannot fail did
};

/// The code in words as they stand in JSON and logs: "peer_lost". Static storage.
[[nodiscard]] IMEX_API std::string_view errc_name(Errc code) noexcept;

/// Rank value that means "no particular rank".
inline constexpr std::uint32_t kNoRank = 0xffff'ffffU;

/// What went wrong (message: lower case, names the object and values with units), and, where a
/// person can act on it, what to do next (hint).
struct Error {
  Errc code = Errc::kInternal;
  std::string message;
  std::string hint{};
  std::uint32_t rank = kNoRank;  ///< with kPeerLost and kAborted: who

  /// Puts `what` in front of the message: "import segment 7: <message>".
  [[nodiscard]] Error context(std::string_view what) && {
    message.insert(0, ": ").insert(0, what);
    return std::move(*this);
  }
  /// "message (code); hint" in one paragraph.
  [[nodiscard]] IMEX_API std::string to_string() const;
};

/// A value or an Error. A class, not an alias, so that dropping one is a compiler warning.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  /// Written out: an implicit one would have `return {};` clear the room of the Error first, 10 ns
  /// for each Result<void> of a short operation.
  Result()
    requires std::is_default_constructible_v<tl::expected<T, Error>>
  {}
};

/// An Error on its way into any Result<T>.
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}
[[nodiscard]] inline tl::unexpected<Error> fail(Errc code, std::string message,
                                                std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint), kNoRank});
}

}  // namespace imex
