#include "event_queue.hpp"

#include <array>

#include <gmock/gmock.h>

namespace imex::domain::client {
namespace {

bool readable(int fd) {
  std::array items{os::PollItem{.fd = fd}};
  EXPECT_TRUE(os::poll_any(items, std::chrono::steady_clock::now()));
  return items[0].readable;
}

EventQueue make_queue() { return EventQueue(std::move(os::EventFd::make()).value()); }

TEST(EventQueueTest, TheDescriptorIsReadableExactlyWhileThereAreEvents) {
  EventQueue queue = make_queue();
  EXPECT_FALSE(readable(queue.fd()));
  queue.push({.kind = SessionEvent::Kind::kDaemonResumed, .id = 1});
  queue.push({.kind = SessionEvent::Kind::kDaemonResumed, .id = 2});
  EXPECT_EQ(queue.pop()->id, 1U);
  EXPECT_TRUE(readable(queue.fd()));
  EXPECT_EQ(queue.pop()->id, 2U);
  EXPECT_FALSE(readable(queue.fd()));
  EXPECT_FALSE(queue.pop());
}

TEST(EventQueueTest, AFullQueueDropsTheOldestAndCounts) {
  EventQueue queue = make_queue();
  for (std::uint64_t id = 0; id != EventQueue::kEventsMax + 3; ++id) {
    queue.push({.kind = SessionEvent::Kind::kDaemonResumed, .id = id});
  }
  EXPECT_EQ(queue.dropped(), 3U);
  EXPECT_EQ(queue.pop()->id, 3U);
}

}  // namespace
}  // namespace imex::domain::client
