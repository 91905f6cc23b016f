#include "watcher.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "answer.hpp"
#include "base/text.hpp"
#include "os/thread.hpp"

namespace imex::fabric::nmxc {
namespace {

/// Of a stream that promised heartbeats.
constexpr int kSilentBeats = 3;
/// Other endpoints are looked at so rarely, because that takes a connection each.
constexpr std::uint32_t kRivalBeats = 6;
constexpr std::chrono::milliseconds kShortestPause(50);

}  // namespace

struct Watcher::Stretch {
  std::shared_ptr<Session> session;
  std::unique_ptr<Subscription> subscription{};
  Backoff resubscribe;
  Clock::time_point next_beat, last_heard;
  bool has_heartbeats = false;  ///< the stream has sent one: its silence means something
  bool polls = false;           ///< the controller has no Subscribe
  std::optional<ControlPlaneState> plane{};
};

Watcher::Watcher(Connector& connector)
    : connector_(connector),
      heartbeat_(std::max<std::chrono::nanoseconds>(connector.options().heartbeat,
                                                    std::chrono::milliseconds(10))) {}

Watcher::~Watcher() {
  stop_.request_stop();
  inbox_.poke();
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    handler_ = nullptr;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Watcher::set_handler(EventHandler handler) {
  const MutexLock lock(mutex_);
  handler_ = std::move(handler);
  greet_ = handler_ != nullptr;
  if (!handler_) return;
  if (!thread_.joinable()) {
    const os::SignalsBlocked blocked;
    thread_ = std::thread([this] {
      os::name_this_thread("nmxc-watch");
      run();
    });
  }
  inbox_.poke();
}

CallScope Watcher::scope_for(std::chrono::nanoseconds duration) const {
  CallScope scope = connector_.scope({Clock::now() + duration, stop_.get_token()});
  return scope;
}

void Watcher::emit(const FabricEvent& event) {
  const MutexLock lock(mutex_);
  if (stopping() || !handler_) return;
  greet_ = false;
  handler_(event);
}

void Watcher::greet_new_handler() {
  {
    const MutexLock lock(mutex_);
    if (!greet_) return;
  }
  emit({.kind = reachable_ ? FabricEvent::Kind::kGap : FabricEvent::Kind::kUnreachable,
        .detail = "a new listener"});
}

void Watcher::run() {
  while (!stopping()) {
    auto session = connector_.acquire(scope_for(connector_.options().connect_timeout *
                                                static_cast<int>(connector_.endpoint_count())));
    if (stopping()) return;
    if (session) {
      reachable_ = true;
      follow(*session);
      continue;
    }
    if (std::exchange(reachable_, false))
      emit({.kind = FabricEvent::Kind::kUnreachable, .detail = session.error().error.to_string()});
    else
      greet_new_handler();
    static_cast<void>(inbox_.wait(Clock::now() + std::max<std::chrono::nanoseconds>(
                                                     session.error().retry_after, kShortestPause)));
  }
}

void Watcher::follow(const std::shared_ptr<Session>& session) {
  const auto now = Clock::now();
  Stretch stretch{
      .session = session,
      .resubscribe = Backoff(connector_.options().backoff, *connector_.options().random),
      .next_beat = now,
      .last_heard = now};
  emit({.kind = FabricEvent::Kind::kGap,
        .detail = fmt::format("listening to {}", session->endpoint().text)});
  while (!stopping() && session->usable()) {
    greet_new_handler();
    if (!stretch.subscription && !stretch.polls &&
        stretch.resubscribe.may_try(connector_.options().clock()))
      subscribe(stretch);
    if (Clock::now() >= stretch.next_beat && !beat(stretch)) break;
    auto until = stretch.next_beat;
    if (!stretch.subscription && !stretch.polls) {
      const Nanos pause = std::max<Nanos>(
          stretch.resubscribe.not_before() - connector_.options().clock(), kShortestPause);
      until = std::min(until, Clock::now() + pause);
    }
    hear(stretch, inbox_.wait(until));
    if (stretch.subscription && stretch.has_heartbeats &&
        Clock::now() - stretch.last_heard > kSilentBeats * heartbeat_) {
      stretch.subscription.reset();
      emit({.kind = FabricEvent::Kind::kGap,
            .detail = fmt::format("{} fell silent for {} heartbeats", session->endpoint().text,
                                  kSilentBeats)});
    }
  }
}

void Watcher::subscribe(Stretch& stretch) {
  inbox_.begin(++streams_);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(heartbeat_).count();
  stretch.subscription =
      Subscription::start(stretch.session, inbox_, streams_,
                          static_cast<std::uint32_t>(std::clamp<std::int64_t>(seconds, 1, 3'600)));
  stretch.last_heard = Clock::now();
  stretch.has_heartbeats = false;
}

void Watcher::hear(Stretch& stretch, Inbox::Batch batch) {
  if (batch.heard) {
    stretch.last_heard = Clock::now();
    stretch.resubscribe.succeeded();
  }
  stretch.has_heartbeats = stretch.has_heartbeats || batch.heartbeat;
  if (batch.overflowed)
    emit({.kind = FabricEvent::Kind::kGap, .detail = "more notifications than could be kept"});
  for (const FabricEvent& event : batch.events) {
    if (event.control_plane != ControlPlaneState::kUndefined) {
      if (stretch.plane == event.control_plane) continue;  // an ordinary heartbeat
      stretch.plane = event.control_plane;
    }
    emit(event);
  }
  if (!batch.ended && !batch.refused) return;

  stretch.subscription.reset();
  const bool unknown =
      (batch.ended && batch.ended->error_code() == grpc::StatusCode::UNIMPLEMENTED) ||
      batch.refused == NmxCode::kNotSupported;
  if (unknown) {
    stretch.polls = true;
    return;
  }
  if (batch.refused == NmxCode::kConnectionNotValid)
    static_cast<void>(stretch.session->hello(scope_for(connector_.options().connect_timeout)));
  stretch.resubscribe.failed(connector_.options().clock());
  emit({.kind = FabricEvent::Kind::kGap,
        .detail =
            batch.refused
                ? fmt::format("Subscribe was refused: {}", nmx_code_name(*batch.refused))
                : fmt::format("notifications ended: {}", printable(batch.ended->error_message()))});
}

bool Watcher::beat(Stretch& stretch) {
  stretch.next_beat = Clock::now() + heartbeat_;
  ++beats_;
  Session& session = *stretch.session;
  if (connector_.retire_if_material_changed()) return false;
  const CallScope scope = scope_for(std::clamp<std::chrono::nanoseconds>(
      heartbeat_, std::chrono::seconds(2), std::chrono::seconds(30)));
  auto state = session.call(kGetDomainStateInfo, pb::GetDomainStateInfoRequest{}, Access::kRead,
                            scope, "read the state of the domain");
  if (!state) {
    if (state.error().next == Next::kHelloAgain) return static_cast<bool>(session.hello(scope));
    const bool answered = state.error().failure.code != NmxCode::kUndefined;
    if (state.error().next != Next::kOtherEndpoint ||
        (answered && connector_.endpoint_count() == 1))
      return true;
    connector_.drop(stretch.session, answered);
    return false;
  }
  const auto plane = static_cast<ControlPlaneState>(state->control_plane_state());
  if (stretch.plane != plane) {
    const bool first = !stretch.plane.has_value();
    stretch.plane = plane;
    if (!first) emit({.kind = FabricEvent::Kind::kControlPlane, .control_plane = plane});
  }
  const bool idle = plane == ControlPlaneState::kStandby || plane == ControlPlaneState::kOffline;
  if (idle && connector_.endpoint_count() > 1) {
    connector_.drop(stretch.session, false);
    return false;
  }
  if (connector_.endpoint_count() > 1 && beats_ % kRivalBeats == 0) look_for_rival(session);
  return session.usable();
}

void Watcher::look_for_rival(const Session& session) {
  const auto rival = connector_.find_rival(session, scope_for(std::chrono::seconds(30)));
  if (rival && !split_) emit({.kind = FabricEvent::Kind::kSplit, .detail = *rival});
  split_ = rival.has_value();
}

}  // namespace imex::fabric::nmxc
