/// The connection to the controller: where it is, who we are, and one call after another.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <forge/forge.grpc.pb.h>

#include "base/result.hpp"

namespace imex::admin {

namespace pb = ::forge;

struct ConnectionOptions {
  /// https://HOST:PORT, http://HOST:PORT (plaintext), or unix:PATH.
  std::string api_url{};
  std::string root_ca_path{};      ///< empty: the system's
  std::string client_cert_path{};  ///< with the key, or not at all
  std::string client_key_path{};
  std::chrono::milliseconds timeout{30'000};  ///< of one call
};

/// One thread at a time.
class Client {
 public:
  /// Reads the files, but does not talk yet. Errors: kInvalidArgument (URL, a certificate without
  /// its key), kNotFound and kPermissionDenied (files).
  [[nodiscard]] static Result<Client> connect(const ConnectionOptions& options);

  /// `what` as in "create logical partition 'p'", for the error. Errors: what the controller says;
  /// kUnavailable (nobody answers), kDeadlineExceeded.
  template <class Request, class Reply>
  [[nodiscard]] Result<Reply> call(grpc::Status (pb::Forge::Stub::*method)(grpc::ClientContext*,
                                                                           const Request&, Reply*),
                                   const Request& request, std::string_view what) {
    asked_ = true;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
    Reply reply;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
    if (status.ok()) return reply;
    return fail(error_of(status, what));
  }

  /// Whether anything was asked yet.
  [[nodiscard]] bool has_asked() const noexcept { return asked_; }

 private:
  Client() = default;
  [[nodiscard]] Error error_of(const grpc::Status& status, std::string_view what) const;

  bool asked_ = false;
  std::string where_;
  std::chrono::milliseconds timeout_{};
  std::unique_ptr<pb::Forge::Stub> stub_;
};

}  // namespace imex::admin
