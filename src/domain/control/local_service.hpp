/// One gRPC service of a daemon of this machine, reached through its Unix socket.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "base/result.hpp"
#include "os/fd.hpp"

namespace imex::domain {

class LocalService {
 public:
  template <class Stub, class Request, class Reply>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  /// Paths over 107 bytes work. Connects with the first call. Errors: kNotFound (no such socket).
  [[nodiscard]] static Result<LocalService> open(const std::string& path,
                                                 std::chrono::milliseconds timeout);

  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const noexcept { return channel_; }

  /// Calls one method under the deadline; `what` begins the message of an error.
  template <class Stub, class Request, class Reply>
  [[nodiscard]] Result<Reply> call(Stub& stub, Method<Stub, Request, Reply> method,
                                   const Request& request, const std::string& what) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
    Reply reply;
    const grpc::Status status = (stub.*method)(&context, request, &reply);
    if (!status.ok()) return fail(error_of(status, what));
    return reply;
  }

 private:
  LocalService(std::string path, std::chrono::milliseconds timeout, os::UniqueFd directory,
               std::shared_ptr<grpc::Channel> channel)
      : path_(std::move(path)),
        timeout_(timeout),
        directory_(std::move(directory)),
        channel_(std::move(channel)) {}
  [[nodiscard]] Error error_of(const grpc::Status& status, const std::string& what) const;

  std::string path_;
  std::chrono::milliseconds timeout_;
  os::UniqueFd directory_;  // keeps /proc/self/fd/N of a long path valid
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace imex::domain
