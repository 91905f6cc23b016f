/// gRPC servers of the daemon: building them so that they behave, and ending them without blocking
/// the loop. Only for the .cpp files that name gRPC anyway.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "base/result.hpp"
#include "net/event_loop.hpp"

namespace imex::domain {

/// The status of a gRPC call for an Error of ours.
[[nodiscard]] inline grpc::Status grpc_status(const Error& error) {
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  switch (error.code) {
    case Errc::kInvalidArgument:
      code = grpc::StatusCode::INVALID_ARGUMENT;
      break;
    case Errc::kNotFound:
      code = grpc::StatusCode::NOT_FOUND;
      break;
    case Errc::kAlreadyExists:
      code = grpc::StatusCode::ALREADY_EXISTS;
      break;
    case Errc::kPermissionDenied:
      code = grpc::StatusCode::PERMISSION_DENIED;
      break;
    case Errc::kResourceExhausted:
      code = grpc::StatusCode::RESOURCE_EXHAUSTED;
      break;
    case Errc::kFailedPrecondition:
      code = grpc::StatusCode::FAILED_PRECONDITION;
      break;
    case Errc::kDeadlineExceeded:
      code = grpc::StatusCode::DEADLINE_EXCEEDED;
      break;
    case Errc::kUnavailable:
      code = grpc::StatusCode::UNAVAILABLE;
      break;
    default:
      break;
  }
  std::string text = error.message;
  if (!error.hint.empty()) text.append("; ").append(error.hint);
  return {code, text};
}

/// Bounded messages, and an end for connections that never say anything.
inline void set_server_defaults(grpc::ServerBuilder& builder, int message_bytes_max) {
  constexpr int kHandshakeMs = 5000, kStreamsMax = 64;  // streams of one connection
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.SetMaxReceiveMessageSize(message_bytes_max);
}

/// Ends a server: calls get `grace`, then they are cancelled. The loop keeps running meanwhile,
/// because handlers wait for it.
inline void shut_down(net::EventLoop& loop, grpc::Server& server, std::chrono::milliseconds grace) {
  std::atomic<bool> done{false};  // written by the thread [A], read by the loop [B]
  std::thread closer([&] {
    server.Shutdown(std::chrono::system_clock::now() + grace);
    server.Wait();
    done.store(true, std::memory_order_release);  // [A] pairs with [B]
    loop.post([] {});
  });
  // No deadline of its own: Shutdown() has one, and the server must be gone before its services.
  static_cast<void>(loop.run_until([&] { return done.load(std::memory_order_acquire); },  // [B]
                                   kNever));
  closer.join();
}

}  // namespace imex::domain
