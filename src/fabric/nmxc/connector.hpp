/// The endpoints of one domain, and the session with whichever of them serves it now.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/mutex.hpp"
#include "fabric/backoff.hpp"
#include "fabric/nmxc.hpp"
#include "fabric/turn.hpp"
#include "session.hpp"

namespace imex::fabric::nmxc {

/// Threads: all calls from any thread.
class Connector {
 public:
  /// `options` are valid; their clock and random are set and must outlive this.
  Connector(Options options, std::vector<Endpoint> endpoints);

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t endpoint_count() const noexcept { return endpoints_.size(); }
  /// With this manager's own end as a second way to be cancelled.
  [[nodiscard]] CallScope scope(const CallOptions& options) const;
  /// Cancels everything that runs, now and later.
  void shut_down() noexcept { shutdown_.request_stop(); }

  /// The session in use, or a new one with the first endpoint that serves the domain. Errors: of
  /// the last endpoint that was tried; kUnavailable with `retry_after` when all are in back-off.
  [[nodiscard]] Outcome<std::shared_ptr<Session>> acquire(const CallScope& scope);
  /// The one in use, if there is one. Dials nothing.
  [[nodiscard]] std::shared_ptr<Session> current();
  /// It is of no use any more. `penalise`: its endpoint is not tried again before its back-off has
  /// passed.
  void drop(const std::shared_ptr<Session>& session, bool penalise);
  /// Retires the session when the TLS files are not those that it was opened with. True: they were
  /// not.
  [[nodiscard]] bool retire_if_material_changed();

  /// Calls `work(session)` until it succeeds, or failed for good: says Hello again once where the
  /// controller asks for it, and goes on to other endpoints as long as nothing can have been
  /// changed. `work`: Session& -> CallOutcome<T>.
  template <class Work>
  [[nodiscard]] auto run(const CallScope& scope, Work&& work)
      -> Outcome<typename std::invoke_result_t<Work, Session&>::value_type>;

  /// An instance of the same domain on another endpoint that also says that its control plane is
  /// configured, where there is one: two controllers both believe to be primary.
  [[nodiscard]] std::optional<std::string> find_rival(const Session& session,
                                                      const CallScope& scope);

 private:
  enum class Role : std::uint8_t { kPrimary, kOther };

  /// The caller has the turn.
  [[nodiscard]] Outcome<std::shared_ptr<Session>> connect(const CallScope& scope);
  [[nodiscard]] Outcome<std::shared_ptr<Session>> open(std::size_t index, const CallScope& scope);
  [[nodiscard]] Role role_of(Session& session, const CallScope& scope);
  [[nodiscard]] Outcome<void> check_domain(const Session& session);
  /// From now on it is the one in use.
  void adopt(const std::shared_ptr<Session>& session);
  [[nodiscard]] bool may_try(std::size_t index);
  void note(std::size_t index, bool succeeded);
  [[nodiscard]] Nanos until_next_try();

  const Options options_;
  const std::vector<Endpoint> endpoints_;
  std::stop_source shutdown_;
  Turn connecting_;  ///< one thread dials, the others wait for what it finds

  Mutex mutex_;
  std::vector<Backoff> backoffs_ IMEX_GUARDED_BY(mutex_);
  std::shared_ptr<Session> session_ IMEX_GUARDED_BY(mutex_);
  std::optional<Uuid> domain_ IMEX_GUARDED_BY(mutex_);
};

template <class Work>
auto Connector::run(const CallScope& scope, Work&& work)
    -> Outcome<typename std::invoke_result_t<Work, Session&>::value_type> {
  bool introduced_again = false;
  std::optional<Failure> first;
  for (std::size_t attempt = 0;; ++attempt) {
    auto session = acquire(scope);
    // What the controller that answered said is worth more than that no other one can be reached.
    if (!session) return tl::unexpected(first ? *std::move(first) : std::move(session).error());
    auto result = work(**session);
    if (result) {
      if constexpr (std::is_void_v<typename std::invoke_result_t<Work, Session&>::value_type>)
        return {};
      else
        return *std::move(result);
    }
    CallError error = std::move(result).error();
    if (error.next == Next::kHelloAgain && !introduced_again) {
      introduced_again = true;
      // A refused call did nothing; a Hello that fails leaves the connection to be replaced.
      if (!(*session)->hello(scope)) drop(*session, false);
      continue;
    }
    if (error.next != Next::kOtherEndpoint) return tl::unexpected(std::move(error.failure));
    const bool answered = error.failure.code != NmxCode::kUndefined;
    if (answered && endpoint_count() == 1) return tl::unexpected(std::move(error.failure));
    drop(*session, answered);
    if (!first) first = error.failure;
    if (error.failure.effect != Effect::kNone || attempt >= endpoint_count() ||
        !scope.check("retry"))
      return tl::unexpected(std::move(*first));
  }
}

}  // namespace imex::fabric::nmxc
