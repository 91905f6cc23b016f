/// The fabric controller's gRPC service of one domain, on one address. Only for .cpp files that
/// name gRPC anyway.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "domain_host.hpp"
#include "net/event_loop.hpp"

namespace imex::rack {

struct TlsFiles {
  std::string certificate, key;  ///< empty: plaintext
  std::string authority;         ///< not empty: clients must have a certificate of it
};

/// Calls that are answered later, on the loop.
class Delays {
 public:
  explicit Delays(net::EventLoop& loop) : loop_(loop), timer_(loop) {}
  /// Any thread.
  void after(Nanos delay, std::function<void()> work);

 private:
  void arm();
  net::EventLoop& loop_;
  net::Timer timer_;
  std::multimap<Time, std::function<void()>> due_;  ///< on the loop only
};

class NmxcService {
 public:
  /// `second`: the other of two trays that both believe to be primary; its instance id differs.
  /// `port` 0: any. Errors: kAlreadyExists: the address is taken; kInvalidArgument: TLS files.
  [[nodiscard]] static Result<std::unique_ptr<NmxcService>> start(net::EventLoop& loop,
                                                                  Delays& delays, DomainHost& host,
                                                                  const std::string& address,
                                                                  std::uint16_t port,
                                                                  const TlsFiles& tls, bool second);
  /// Ends at once: calls under way are cancelled. On the loop.
  ~NmxcService();
  NmxcService(const NmxcService&) = delete;
  NmxcService& operator=(const NmxcService&) = delete;
  [[nodiscard]] std::uint16_t port() const noexcept;

 private:
  struct Impl;
  explicit NmxcService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::rack
