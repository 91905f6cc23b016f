/// "https://[fe80::1]:9370" taken apart. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex::fabric::nmxc {

inline constexpr std::uint16_t kDefaultPort = 9'370;

struct Endpoint {
  bool tls = false;
  std::string host;  ///< without the brackets of an IPv6 literal
  std::uint16_t port = kDefaultPort;
  std::string text;  ///< as configured, for people

  /// For gRPC: "10.0.0.1:9370", "[fe80::1]:9370".
  [[nodiscard]] std::string target() const;
};

/// Errors: kInvalidArgument: another scheme, no host, a port that is none, anything behind it.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace imex::fabric::nmxc
