/// One connection to one controller, after a Hello that succeeded.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <grpcpp/channel.h>

#include "base/mutex.hpp"
#include "credentials.hpp"
#include "endpoint.hpp"
#include "fabric/nmxc.hpp"
#include "fabric/turn.hpp"
#include "method.hpp"

namespace imex::fabric::nmxc {

/// What whoever made a call should do when it did not succeed.
enum class Next : std::uint8_t {
  kReturn,
  kHelloAgain,     ///< the controller knows no session
  kOtherEndpoint,  ///< this connection is of no use any more
};
struct CallError {
  Failure failure;
  Next next = Next::kReturn;
};
template <class T>
using CallOutcome = tl::expected<T, CallError>;

enum class Access : std::uint8_t { kRead, kChange };

/// From the header of a Hello that succeeded.
struct Identity {
  Uuid domain_uuid;
  std::string instance;
  std::string version;
};

/// Threads: all calls from any thread, side by side.
class Session {
 public:
  struct Settings {
    std::string gateway_id;
    Dialect dialect = Dialect::kAuto;
    std::string server_name;
    Nanos keepalive{};
    std::size_t answer_bytes_max = 0;
  };
  /// Connects and says Hello, in the draft dialect too where `dialect` is kAuto and the current
  /// service is not there. The domain is not compared with anything yet. `material` is used by an
  /// https endpoint only.
  [[nodiscard]] static Outcome<std::shared_ptr<Session>> open(const Endpoint& endpoint,
                                                              const Settings& settings,
                                                              TlsMaterial material,
                                                              const CallScope& scope);

  /// Fills in the gateway id, sends, and checks transport status, header, domain and return code.
  /// `what` is for messages: "create partition 'lp-7'".
  template <class Request, class Answer>
  [[nodiscard]] CallOutcome<Answer> call(const Method<Request, Answer>& method, Request request,
                                         Access access, const CallScope& scope,
                                         std::string_view what);
  /// Again on the same connection.
  [[nodiscard]] CallOutcome<void> hello(const CallScope& scope);

  /// Still the connection that said Hello, to the same life of the controller. A lost one is not
  /// opened again beneath our calls: a new one needs a new Hello.
  [[nodiscard]] bool usable() const;
  /// No new call should use it: certificates changed, or the controller is another one.
  void retire() noexcept { retired_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool retired() const noexcept { return retired_.load(std::memory_order_relaxed); }

  [[nodiscard]] const Identity& identity() const noexcept { return identity_; }
  [[nodiscard]] Dialect dialect() const noexcept { return dialect_; }
  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }
  /// What it was opened with.
  [[nodiscard]] const TlsMaterial& material() const noexcept { return material_; }
  [[nodiscard]] const std::string& gateway_id() const noexcept { return settings_.gateway_id; }
  [[nodiscard]] CurrentStub& current() noexcept { return *current_; }
  [[nodiscard]] DraftStub& draft() noexcept { return *draft_; }

 private:
  Session(Endpoint endpoint, Settings settings, TlsMaterial material);
  [[nodiscard]] CallOutcome<pb::ServerHello> hello_in(Dialect dialect, const CallScope& scope);
  [[nodiscard]] Outcome<void> introduce(const CallScope& scope);
  [[nodiscard]] tl::unexpected<CallError> transport_error(const grpc::Status& status, Access access,
                                                          const CallScope& scope,
                                                          std::string_view what) const;
  /// Of an answer that came. A null header: the answer has none.
  [[nodiscard]] CallOutcome<void> check_header(const pb::ServerHeader* header, Access access,
                                               std::string_view what);

  const Endpoint endpoint_;
  const Settings settings_;
  const TlsMaterial material_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<CurrentStub> current_;
  const std::unique_ptr<DraftStub> draft_;
  Dialect dialect_ = Dialect::kCurrent;  ///< constant after open()
  Identity identity_{};                  ///< constant after open()
  bool introduced_ = false;              ///< constant after open()
  std::atomic<bool> retired_{false};     ///< only ever set; publishes nothing else
};

/// gRPC counts wall time; ours is steady.
[[nodiscard]] std::chrono::system_clock::time_point wall_deadline(const CallScope& scope);

template <class Request, class Answer>
CallOutcome<Answer> Session::call(const Method<Request, Answer>& method, Request request,
                                  Access access, const CallScope& scope, std::string_view what) {
  if (auto may = scope.check(what); !may)
    return tl::unexpected(CallError{std::move(may).error(), Next::kReturn});
  request.set_gateway_id(settings_.gateway_id);
  grpc::ClientContext context;
  context.set_deadline(wall_deadline(scope));
  Answer answer;
  grpc::Status status;
  {
    const OnCancel cancel(scope, [&context] { context.TryCancel(); });
    if (dialect_ == Dialect::kDraft) {
      status = method.draft != nullptr
                   ? ((*draft_).*method.draft)(&context, request, &answer)
                   : grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "not in the draft dialect");
    } else {
      status = method.current != nullptr
                   ? ((*current_).*method.current)(&context, request, &answer)
                   : grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "only in the draft dialect");
    }
  }
  if (!status.ok()) return transport_error(status, access, scope, what);
  if (auto fits = check_header(answer.has_server_header() ? &answer.server_header() : nullptr,
                               access, what);
      !fits)
    return tl::unexpected(std::move(fits).error());
  return answer;
}

}  // namespace imex::fabric::nmxc
