#include "endpoint.hpp"

#include <charconv>

#include <fmt/format.h>

#include "base/text.hpp"

namespace imex::fabric::nmxc {
namespace {

constexpr std::size_t kHostMax = 253;

auto refuse_endpoint(std::string_view text, std::string_view why) {
  return fail(
      Errc::kInvalidArgument, fmt::format("endpoint '{}': {}", printable(text.substr(0, 300)), why),
      "write http://HOST:PORT for plaintext or https://HOST:PORT for TLS; IPv6 in brackets");
}

}  // namespace

std::string Endpoint::target() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  Endpoint endpoint;
  endpoint.text = text;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    endpoint.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return refuse_endpoint(text, "scheme is neither http nor https");
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);

  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos)
      return refuse_endpoint(text, "no ']' behind the IPv6 address");
    endpoint.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && !rest.starts_with(':'))
      return refuse_endpoint(text, "text behind the address");
    if (endpoint.host.find(':') == std::string::npos)
      return refuse_endpoint(text, "brackets without an IPv6 address");
    port = rest.empty() ? std::string_view("9370") : rest.substr(1);
  } else {
    const std::size_t colon = rest.find(':');
    endpoint.host = rest.substr(0, colon);
    port = colon == std::string_view::npos ? std::string_view("9370") : rest.substr(colon + 1);
  }
  if (endpoint.host.empty()) return refuse_endpoint(text, "no host");
  if (endpoint.host.size() > kHostMax) return refuse_endpoint(text, "host name is too long");
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
  if (endpoint.host.find_first_not_of(kAllowed) != std::string::npos)
    return refuse_endpoint(text, "host has a character that no host has");
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0 || number > 65'535)
    return refuse_endpoint(text, "port is not a number from 1 to 65535");
  endpoint.port = static_cast<std::uint16_t>(number);
  return endpoint;
}

}  // namespace imex::fabric::nmxc
