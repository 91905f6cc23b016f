/// Requests to an NMX-M, over whatever carries them.
#pragma once

#include <memory>
#include <string>

#include "fabric/nmxm.hpp"
#include "fabric/turn.hpp"

namespace imex::fabric::nmxm {

enum class Verb : std::uint8_t { kGet, kPost, kPut, kDelete };
[[nodiscard]] constexpr bool is_change(Verb verb) noexcept { return verb != Verb::kGet; }

struct Request {
  Verb verb = Verb::kGet;
  std::string path;    ///< behind the base URL: "/nmx/v1/partitions"
  std::string body{};  ///< JSON
};

struct Reply {
  unsigned status = 0;
  std::string body{};
  std::string location{};  ///< of the header; empty: none
};

class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Any status is a reply. A failure's effect is kUnknown for a change whose request may have
  /// left.
  [[nodiscard]] virtual Outcome<Reply> send(const Request& request, const CallScope& scope) = 0;
};

/// HTTP to the endpoints of `options`: reads go on to the next one where one cannot be reached,
/// changes do not. Files of certificates are read again once they changed. Errors: those of the
/// files.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_http_transport(const Options& options);

}  // namespace imex::fabric::nmxm
