/// Streams between daemons: one server for all domains of a process that listen on one address, and
/// the dialler. gRPC's threads only hand messages over to the loop, one at a time per stream; the
/// state machines decide there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon_log.hpp"
#include "net/event_loop.hpp"
#include "net/tls.hpp"
#include "peer_wire.hpp"

namespace imex::domain {

/// One domain's side of the streams that others open. On the loop.
class PeerAcceptor {
 public:
  virtual ~PeerAcceptor() = default;
  /// How well a hello fits: 2 its domain id is ours, 1 none is configured and the lists agree,
  /// 0 not at all. The best acceptor gets the stream; if none fits, the first one refuses it.
  [[nodiscard]] virtual int affinity(const Hello& hello) const = 0;
  virtual void on_hello(std::uint64_t stream, Hello hello) = 0;
  virtual void on_message(std::uint64_t stream, PeerPayload payload) = 0;
  virtual void on_closed(std::uint64_t stream) = 0;
};

class PeerServer {
 public:
  /// Binds `address` only, never the wildcard, and never beside another process. `tls`: both sides
  /// must present certificates; material in files is followed when it changes. Errors:
  /// kAlreadyExists (port in use; the message names the holder if /proc tells), those of bind.
  [[nodiscard]] static Result<std::unique_ptr<PeerServer>> start(
      net::EventLoop& loop, const std::string& address, std::uint16_t port,
      const std::optional<net::TlsIdentity>& tls, LogSink log);
  ~PeerServer();

  void add(PeerAcceptor& acceptor);
  void remove(PeerAcceptor& acceptor);
  /// The first message back. The stream ends after a verdict other than kAccepted.
  void answer(std::uint64_t stream, HelloVerdict verdict, const Hello& hello);
  void send(std::uint64_t stream, const PeerPayload& payload);
  /// Ends the stream once what was sent before is on its way.
  void drop(std::uint64_t stream);
  /// Ends all streams, waits for gRPC on a thread of its own while the loop goes on; bounded.
  void stop();

  struct Impl;

 private:
  explicit PeerServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Who wants to hear of streams that this process opened. On the loop.
class PeerDials {
 public:
  virtual ~PeerDials() = default;
  virtual void on_answer(std::uint64_t attempt, PeerHello answer) = 0;
  virtual void on_dial_message(std::uint64_t attempt, PeerPayload payload) = 0;
  /// Before or after the answer. `refused`: the machine answered, nobody listens or it reset.
  virtual void on_dial_closed(std::uint64_t attempt, const std::string& why, bool refused) = 0;
};

class PeerDialer {
 public:
  PeerDialer(net::EventLoop& loop, PeerDials& events);
  ~PeerDialer();

  struct Security {
    net::TlsIdentity identity;
    std::string expected_name;  ///< to find in the peer's certificate
  };
  /// A brand-new connection each time, so that neither gRPC's back-off nor a reused connection
  /// decides anything.
  void dial(std::uint64_t attempt, const std::string& address, std::uint16_t port,
            const std::optional<Security>& security, const Hello& hello);
  void send(std::uint64_t attempt, const PeerPayload& payload);
  /// Orderly: what was sent before still goes out. No more events of it.
  void hang_up(std::uint64_t attempt);
  /// Streams that have not ended yet, those hung up included.
  [[nodiscard]] std::size_t open_streams() const noexcept;
  /// Ends all at once.
  void cancel_all();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::domain
