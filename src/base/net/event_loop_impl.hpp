/// What the files of this room share of the loop. Not for other rooms: names Boost.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "net/event_loop.hpp"

namespace imex::net {

/// A timer's place in the order: by time, then in the order of arming.
using TimerKey = std::pair<Time, std::uint64_t>;

struct Timer::State {
  TimerKey key{kNever, 0};  ///< kNever: not armed
  std::function<void()> callback;
};

struct EventLoop::Impl {
  explicit Impl(Options chosen);

  void arm_clock();
  void wait_for_clock();
  void fire_due();

  Options options;
  boost::asio::io_context io{1};
  boost::asio::posix::stream_descriptor clock;  ///< timerfd on CLOCK_BOOTTIME
  std::map<TimerKey, Timer::State*> timers;
  std::uint64_t timers_armed = 0;
  Time clock_set_for = kNever;
  Time awake_until{0};
  bool stopped = false;  ///< only on the loop's thread
};

}  // namespace imex::net
