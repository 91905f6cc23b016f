#include "net/event_loop.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include "base/assert.hpp"
#include "event_loop_impl.hpp"
#include "os/process.hpp"

namespace imex::net {

namespace asio = boost::asio;

namespace {

/// Long enough for the next request of a client that has just read its answer, short against what a
/// person or a battery would notice: under load the loop works anyway, idle it never comes here.
constexpr Nanos kBusyPoll = std::chrono::microseconds(30);
/// Timers fired before other events get their turn.
constexpr int kTimersPerRound = 256;

}  // namespace

Nanos EventLoop::default_busy_poll() noexcept {
  return os::usable_cores() > 1 ? kBusyPoll : Nanos(0);
}

EventLoop::Impl::Impl(Options chosen) : options(chosen), clock(io) {
  const int fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  IMEX_ASSERT(fd >= 0, "timerfd_create fails only without descriptors, before anything has begun");
  clock.assign(fd);
}

void EventLoop::Impl::arm_clock() {
  const Time first = timers.empty() ? kNever : timers.begin()->first.first;
  if (first == clock_set_for) return;
  clock_set_for = first;
  itimerspec when{};
  if (first != kNever) {
    // 0 would disarm the clock: the past is the first nanosecond.
    const std::int64_t ns = std::max<std::int64_t>(first.ns, 1);
    when.it_value.tv_sec = ns / 1'000'000'000;
    when.it_value.tv_nsec = ns % 1'000'000'000;
  }
  const int status = ::timerfd_settime(clock.native_handle(), TFD_TIMER_ABSTIME, &when, nullptr);
  IMEX_ASSERT(status == 0, "timerfd_settime with a valid time cannot fail");
}

void EventLoop::Impl::wait_for_clock() {
  clock.async_wait(asio::posix::stream_descriptor::wait_read, [this](auto error) {
    if (error) return;
    std::uint64_t expirations = 0;
    // Nothing to read means that the clock was set anew meanwhile.
    [[maybe_unused]] const auto bytes =
        ::read(clock.native_handle(), &expirations, sizeof expirations);
    clock_set_for = kNever;
    fire_due();
    wait_for_clock();
  });
}

void EventLoop::Impl::fire_due() {
  const Time now = os::now();
  for (int i = 0; i < kTimersPerRound && !timers.empty(); ++i) {
    const auto first = timers.begin();
    if (first->first.first > now) break;
    Timer::State& timer = *first->second;
    timers.erase(first);
    timer.key.first = kNever;
    const std::function<void()> callback = std::move(timer.callback);  // may destroy the timer
    callback();
  }
  arm_clock();
}

EventLoop::EventLoop(Options options) : impl_(std::make_unique<Impl>(options)) {
  impl_->wait_for_clock();
}

EventLoop::~EventLoop() = default;

void EventLoop::run() {
  static_cast<void>(run_until([] { return false; }, kNever));
}

bool EventLoop::run_until(const std::function<bool()>& done, Time deadline) {
  Timer wake(*this);
  if (deadline != kNever) wake.arm(deadline, [] {});
  impl_->stopped = false;
  impl_->io.restart();
  while (!impl_->stopped && !done()) {
    if (deadline != kNever && now() >= deadline) break;
    if (impl_->io.poll() > 0) continue;
    if (impl_->awake_until.ns != 0) {
      if (now() < impl_->awake_until) continue;
      impl_->awake_until = Time{0};
    }
    impl_->io.run_one();
  }
  return done();
}

void EventLoop::stop() {
  post([this] { impl_->stopped = true; });
}

void EventLoop::post(std::function<void()> work) { asio::post(impl_->io, std::move(work)); }

void EventLoop::stay_awake() noexcept {
  if (impl_->options.busy_poll > Nanos(0)) impl_->awake_until = now() + impl_->options.busy_poll;
}

Time EventLoop::now() const noexcept { return os::now(); }

Timer::Timer(EventLoop& loop) : loop_(loop), state_(std::make_unique<State>()) {}
Timer::~Timer() { cancel(); }

void Timer::arm(Time when, std::function<void()> callback) {
  cancel();
  if (when == kNever) return;
  EventLoop::Impl& impl = loop_.impl();
  state_->callback = std::move(callback);
  state_->key = {when, ++impl.timers_armed};
  impl.timers.emplace(state_->key, state_.get());
  impl.arm_clock();
}

void Timer::cancel() noexcept {
  if (!armed()) return;
  // The clock may ring for nothing once; setting it back would cost a system call each time.
  loop_.impl().timers.erase(state_->key);
  state_->key.first = kNever;
  state_->callback = nullptr;
}

bool Timer::armed() const noexcept { return state_->key.first != kNever; }

/// Shared with the waits in flight, which outlive the watch by one round of the loop.
struct FdWatch::State : std::enable_shared_from_this<FdWatch::State> {
  State(EventLoop& loop, int fd) : descriptor(loop.impl().io, fd) {}

  using Wait = asio::posix::stream_descriptor::wait_type;
  struct Direction {
    Wait wait;
    std::function<void()> callback;
    bool waiting = false;
  };

  void start(Direction& direction) {
    if (direction.waiting || !direction.callback || ended) return;
    direction.waiting = true;
    descriptor.async_wait(direction.wait, [self = shared_from_this(), &direction](auto error) {
      direction.waiting = false;
      if (error || self->ended || !direction.callback) return;
      // A copy: the callback may replace itself.
      const std::function<void()> callback = direction.callback;
      callback();
      self->start(direction);
    });
  }

  asio::posix::stream_descriptor descriptor;
  Direction read{asio::posix::stream_descriptor::wait_read, {}, false};
  Direction write{asio::posix::stream_descriptor::wait_write, {}, false};
  bool ended = false;
};

FdWatch::FdWatch(EventLoop& loop, int fd) : state_(std::make_shared<State>(loop, fd)) {}
FdWatch::FdWatch(FdWatch&&) noexcept = default;

FdWatch& FdWatch::operator=(FdWatch&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

FdWatch::~FdWatch() {
  if (!state_) return;
  state_->ended = true;
  state_->descriptor.release();  // cancels the waits; the descriptor stays with its owner
}

void FdWatch::on_readable(std::function<void()> callback) {
  state_->read.callback = std::move(callback);
  state_->start(state_->read);
}

void FdWatch::on_writable(std::function<void()> callback) {
  state_->write.callback = std::move(callback);
  state_->start(state_->write);
}

struct SignalWatch::State : std::enable_shared_from_this<SignalWatch::State> {
  State(EventLoop& loop, std::function<void(int)> on_signal)
      : signals(loop.impl().io), callback(std::move(on_signal)) {}

  void wait() {
    signals.async_wait([self = shared_from_this()](auto error, int number) {
      if (error || self->ended) return;
      self->callback(number);
      if (!self->ended) self->wait();
    });
  }

  asio::signal_set signals;
  std::function<void(int)> callback;
  bool ended = false;
};

SignalWatch::SignalWatch(EventLoop& loop, std::initializer_list<int> signals,
                         std::function<void(int)> callback)
    : state_(std::make_shared<State>(loop, std::move(callback))) {
  for (const int number : signals) state_->signals.add(number);
  state_->wait();
}

SignalWatch::~SignalWatch() {
  state_->ended = true;
  boost::system::error_code ignored;
  state_->signals.cancel(ignored);
  state_->signals.clear(ignored);
}

}  // namespace imex::net
