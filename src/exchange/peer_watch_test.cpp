#include "peer_watch.hpp"

#include <gtest/gtest.h>

#include "os/process.hpp"
#include "os/thread.hpp"

namespace imex::exchange {
namespace {

// The end may come at any moment of the thread's first round.
TEST(PeerWatchTest, EndsWheneverItsLastHolderGoes) {
  const std::int32_t self = os::process_id();
  const auto ticks = os::process_start_ticks(self);
  ASSERT_TRUE(ticks);
#if defined(__SANITIZE_THREAD__)
  constexpr int kRounds = 300;
#else
  constexpr int kRounds = 3'000;
#endif
  for (int round = 0; round != kRounds; ++round) {
    const auto watch = PeerWatch::instance();
    ASSERT_TRUE(watch) << watch.error().to_string();
    const auto id = (*watch)->watch(self, *ticks, [] {});
    ASSERT_TRUE(id) << id.error().to_string();
    (*watch)->forget(*id);  // wakes the thread just before the end
  }
}

}  // namespace
}  // namespace imex::exchange
