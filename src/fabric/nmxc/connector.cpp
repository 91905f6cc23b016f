#include "connector.hpp"

#include <fmt/format.h>

#include "answer.hpp"

namespace imex::fabric::nmxc {
namespace {

/// An attempt that got less time than this tells nothing about the endpoint.
constexpr std::chrono::seconds kFairAttempt(1);

}  // namespace

Connector::Connector(Options options, std::vector<Endpoint> endpoints)
    : options_(std::move(options)),
      endpoints_(std::move(endpoints)),
      domain_(options_.domain_uuid) {
  for (std::size_t i = 0; i < endpoints_.size(); ++i)
    backoffs_.emplace_back(options_.backoff, *options_.random);
}

CallScope Connector::scope(const CallOptions& options) const {
  return {
      .deadline = options.deadline, .cancel = options.cancel, .shutdown = shutdown_.get_token()};
}

std::shared_ptr<Session> Connector::current() {
  const MutexLock lock(mutex_);
  return session_;
}

Outcome<std::shared_ptr<Session>> Connector::acquire(const CallScope& scope) {
  if (auto session = current(); session && session->usable()) return session;
  auto turn = connecting_.take(scope, "connect to the fabric controller");
  if (!turn) return tl::unexpected(std::move(turn).error());
  if (auto session = current(); session && session->usable()) return session;
  return connect(scope);
}

Outcome<std::shared_ptr<Session>> Connector::connect(const CallScope& scope) {
  std::optional<Failure> last;
  std::shared_ptr<Session> standby;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    if (!may_try(i)) continue;
    if (auto in_time = scope.check("connect to the fabric controller"); !in_time) {
      if (!last) last = std::move(in_time).error();
      break;
    }
    // The time that is left is shared, so that one that swallows everything leaves some for the
    // next.
    const auto left = scope.deadline - std::chrono::steady_clock::now();
    const auto share = std::min<std::chrono::nanoseconds>(
        left / static_cast<int>(endpoints_.size() - i), options_.connect_timeout);
    const auto began = std::chrono::steady_clock::now();
    auto session = open(i, scope.within(share));
    const bool fair = std::chrono::steady_clock::now() - began >= kFairAttempt;
    if (!session) {
      if (scope.cancelled()) return session;
      if (fair || session.error().error.code != Errc::kDeadlineExceeded) note(i, false);
      last = std::move(session).error();
      continue;
    }
    note(i, true);
    if (endpoints_.size() == 1 || role_of(**session, scope.within(share)) == Role::kPrimary)
      return session;
    if (!standby) standby = *session;
  }
  if (standby) {
    const MutexLock lock(mutex_);
    session_ = standby;
    return standby;
  }
  if (last) return tl::unexpected(*std::move(last));
  Failure failure;
  failure.retry = NmxRetry::kBackOff;
  failure.retry_after = until_next_try();
  failure.error = {
      Errc::kUnavailable,
      fmt::format("no fabric controller answers: {} endpoint(s) in back-off, next attempt in {} ms",
                  endpoints_.size(), failure.retry_after.count() / 1'000'000),
      "see the log for what each endpoint said"};
  return tl::unexpected(std::move(failure));
}

Outcome<std::shared_ptr<Session>> Connector::open(std::size_t index, const CallScope& scope) {
  const Session::Settings settings{.gateway_id = options_.gateway_id,
                                   .dialect = options_.dialect,
                                   .server_name = options_.tls.server_name,
                                   .keepalive = options_.keepalive,
                                   .answer_bytes_max = options_.answer_bytes_max};
  const Endpoint& endpoint = endpoints_[index];
  TlsMaterial material;
  Outcome<std::shared_ptr<Session>> session;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (endpoint.tls) {
      auto read = read_material(options_.tls);
      if (!read)
        return tl::unexpected(
            Failure{.error = std::move(read).error(), .retry = NmxRetry::kBackOff});
      if (attempt > 0 && *read == material) break;  // files written while we shook hands: once more
      material = *std::move(read);
    } else if (attempt > 0) {
      break;
    }
    session = Session::open(endpoint, settings, material, scope);
    if (session || session.error().error.code != Errc::kUnavailable) break;
  }
  if (!session) {
    if (options_.log != nullptr && !scope.cancelled()) {
      options_.log->limited(
          log::Level::kWarn, "fabric controller does not serve",
          {{"endpoint", endpoint.text}, {"error", session.error().error.to_string()}});
    }
    return session;
  }
  if (auto right = check_domain(**session); !right) return tl::unexpected(std::move(right).error());
  adopt(*session);
  return session;
}

Outcome<void> Connector::check_domain(const Session& session) {
  const Uuid& found = session.identity().domain_uuid;
  const MutexLock lock(mutex_);
  if (!domain_) domain_ = found;
  if (*domain_ == found) return {};
  Failure failure;
  failure.error = {Errc::kFailedPrecondition,
                   fmt::format("{} serves domain {}, wanted {}", session.endpoint().text,
                               found.to_string(), domain_->to_string()),
                   "the address belongs to another rack: correct the endpoints of this domain"};
  failure.retry = NmxRetry::kBackOff;
  if (options_.log != nullptr)
    options_.log->limited(log::Level::kError, "fabric controller of another domain",
                          {{"error", failure.error.message}});
  return tl::unexpected(std::move(failure));
}

void Connector::adopt(const std::shared_ptr<Session>& session) {
  {
    const MutexLock lock(mutex_);
    session_ = session;
  }
  if (options_.log == nullptr) return;
  options_.log->info("session with fabric controller",
                     {{"endpoint", session->endpoint().text},
                      {"domain", session->identity().domain_uuid.to_string()},
                      {"instance", session->identity().instance},
                      {"version", session->identity().version},
                      {"dialect", session->dialect() == Dialect::kDraft ? "draft" : "current"}});
}

Connector::Role Connector::role_of(Session& session, const CallScope& scope) {
  auto state = session.call(kGetDomainStateInfo, pb::GetDomainStateInfoRequest{}, Access::kRead,
                            scope, "read the state of the domain");
  if (!state) {
    const NmxCode code = state.error().failure.code;
    // A controller that cannot tell may serve all the same; one that says it is not ready does not.
    return code == NmxCode::kNotReady || code == NmxCode::kUninitialized ||
                   code == NmxCode::kNotConfigured || state.error().next == Next::kOtherEndpoint
               ? Role::kOther
               : Role::kPrimary;
  }
  const auto plane = static_cast<ControlPlaneState>(state->control_plane_state());
  return plane == ControlPlaneState::kStandby || plane == ControlPlaneState::kOffline
             ? Role::kOther
             : Role::kPrimary;
}

void Connector::drop(const std::shared_ptr<Session>& session, bool penalise) {
  session->retire();
  const MutexLock lock(mutex_);
  if (session_ == session) session_.reset();
  if (!penalise) return;
  for (std::size_t i = 0; i < endpoints_.size(); ++i)
    if (endpoints_[i].text == session->endpoint().text) backoffs_[i].failed(options_.clock());
}

bool Connector::retire_if_material_changed() {
  const auto session = current();
  if (!session || !session->endpoint().tls) return false;
  auto now = read_material(options_.tls);
  if (!now)
    return false;  // in the middle of being replaced, or gone: the connection that stands is good
  if (*now == session->material()) return false;
  session->retire();
  return true;
}

std::optional<std::string> Connector::find_rival(const Session& session, const CallScope& scope) {
  const Session::Settings settings{.gateway_id = options_.gateway_id,
                                   .dialect = options_.dialect,
                                   .server_name = options_.tls.server_name,
                                   .keepalive = Nanos(0),
                                   .answer_bytes_max = options_.answer_bytes_max};
  for (const Endpoint& endpoint : endpoints_) {
    if (endpoint.text == session.endpoint().text || scope.cancelled()) continue;
    TlsMaterial material;
    if (endpoint.tls) {
      auto read = read_material(options_.tls);
      if (!read) continue;
      material = *std::move(read);
    }
    auto other = Session::open(endpoint, settings, material, scope.within(std::chrono::seconds(5)));
    if (!other) continue;
    const Identity& identity = (*other)->identity();
    if (identity.domain_uuid != session.identity().domain_uuid ||
        identity.instance == session.identity().instance)
      continue;
    auto state =
        (*other)->call(kGetDomainStateInfo, pb::GetDomainStateInfoRequest{}, Access::kRead,
                       scope.within(std::chrono::seconds(5)), "read the state of the domain");
    if (state && state->control_plane_state() == pb::CONTROL_PLANE_STATE_CONFIGURED) {
      return fmt::format("{} (instance {}) and {} (instance {}) both serve domain {}",
                         session.endpoint().text, session.identity().instance, endpoint.text,
                         identity.instance, identity.domain_uuid.to_string());
    }
  }
  return std::nullopt;
}

bool Connector::may_try(std::size_t index) {
  const MutexLock lock(mutex_);
  return backoffs_[index].may_try(options_.clock());
}

void Connector::note(std::size_t index, bool succeeded) {
  const MutexLock lock(mutex_);
  if (succeeded)
    backoffs_[index].succeeded();
  else
    backoffs_[index].failed(options_.clock());
}

Nanos Connector::until_next_try() {
  const MutexLock lock(mutex_);
  Time earliest = kNever;
  for (const Backoff& backoff : backoffs_) earliest = std::min(earliest, backoff.not_before());
  return std::max(Nanos(0), earliest - options_.clock());
}

}  // namespace imex::fabric::nmxc
