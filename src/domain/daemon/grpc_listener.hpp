/// A listening socket of a gRPC server whose connections the loop accepts. gRPC itself gives up a
/// listener for good when accept() finds no descriptor, so whoever opens enough connections to a
/// port would make it unreachable until the daemon restarts. Only for the .cpp files that name gRPC
/// anyway.
#pragma once

#include <cstdint>
#include <memory>

#include <grpcpp/grpcpp.h>

#include "daemon_log.hpp"
#include "net/event_loop.hpp"
#include "server_socket.hpp"

namespace imex::domain {

/// On the loop.
class GrpcListener {
 public:
  /// How far into the reserve of descriptors its connections may go (DescriptorReserve).
  enum class Share : std::uint8_t { kCommands, kPeers };

  /// Makes the server of `builder` take what will be accepted here.
  GrpcListener(net::EventLoop& loop, ServerSocket socket, Share share, LogSink log,
               grpc::ServerBuilder& builder,
               const std::shared_ptr<grpc::ServerCredentials>& credentials);
  /// Before the server is shut down.
  ~GrpcListener();
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  /// Once the server runs.
  void start();

 private:
  void accept();
  void rest();
  void turn_away();

  net::EventLoop& loop_;
  ServerSocket socket_;
  Share share_;
  LogSink log_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  net::FdWatch watch_;
  net::Timer retry_;
  Time told_{INT64_MIN / 2};  ///< last warning
};

}  // namespace imex::domain
