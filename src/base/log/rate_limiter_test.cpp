#include "log/rate_limiter.hpp"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::log {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Time at(std::int64_t second) { return Time{} + seconds(second); }
std::vector<std::string> flat(const std::vector<RateLimiter::Suppressed>& list) {
  std::vector<std::string> result;
  for (const auto& [key, count] : list) result.push_back(key + ":" + std::to_string(count));
  return result;
}

TEST(RateLimiterTest, OneLinePerKeyAndInterval) {
  RateLimiter limiter(seconds(10));
  EXPECT_TRUE(limiter.admit("a", at(0)));
  EXPECT_FALSE(limiter.admit("a", at(1)));
  EXPECT_TRUE(limiter.admit("b", at(1))) << "keys do not touch each other";
  EXPECT_FALSE(limiter.admit("a", at(9)));
  EXPECT_TRUE(limiter.admit("a", at(10)));
  EXPECT_THAT(flat(limiter.expired(at(10))), ElementsAre("a:2"));
  EXPECT_THAT(limiter.expired(at(10)), IsEmpty()) << "told once";
}

TEST(RateLimiterTest, CountsOfTextsThatStoppedComeOut) {
  RateLimiter limiter(seconds(10));
  EXPECT_TRUE(limiter.admit("quiet", at(0)));
  EXPECT_TRUE(limiter.admit("a", at(0)));
  EXPECT_FALSE(limiter.admit("a", at(1)));
  EXPECT_THAT(limiter.expired(at(9)), IsEmpty());
  EXPECT_THAT(flat(limiter.expired(at(10))), ElementsAre("a:1"))
      << "nothing for what was not held back";
  EXPECT_TRUE(limiter.admit("b", at(11)));
  EXPECT_FALSE(limiter.admit("b", at(11)));
  EXPECT_THAT(flat(limiter.drain()), ElementsAre("b:1"));
  EXPECT_TRUE(limiter.admit("b", at(11))) << "drained: forgotten";
}

TEST(RateLimiterTest, TheOldestKeyMakesRoomAndIsReported) {
  RateLimiter limiter(seconds(10), 2);
  EXPECT_TRUE(limiter.admit("a", at(0)));
  EXPECT_FALSE(limiter.admit("a", at(0)));
  EXPECT_TRUE(limiter.admit("b", at(1)));
  EXPECT_TRUE(limiter.admit("c", at(2)));
  EXPECT_THAT(flat(limiter.expired(at(2))), ElementsAre("a:1"));
  EXPECT_FALSE(limiter.admit("b", at(3)));
  EXPECT_TRUE(limiter.admit("a", at(3)));
}

// Against a simple model: every line is either admitted or counted exactly once, and no key is
// admitted twice within an interval.
TEST(RateLimiterTest, NoLineIsLostOrCountedTwice) {
  std::mt19937 random(11);
  RateLimiter limiter(seconds(10), 1000);
  std::map<std::string, std::int64_t> last_admitted;
  std::uint64_t admitted = 0;
  std::uint64_t counted = 0;
  constexpr int kLines = 20'000;
  std::int64_t now = 0;
  for (int i = 0; i < kLines; ++i) {
    now += static_cast<std::int64_t>(random() % 3);
    for (const auto& held : limiter.expired(at(now))) counted += held.count;
    const std::string key(1, static_cast<char>('a' + random() % 8));
    if (!limiter.admit(key, at(now))) continue;
    ++admitted;
    const auto former = last_admitted.find(key);
    if (former != last_admitted.end()) {
      ASSERT_GE(now, former->second + 10);
    }
    last_admitted[key] = now;
  }
  for (const auto& held : limiter.drain()) counted += held.count;
  EXPECT_EQ(admitted + counted, static_cast<std::uint64_t>(kLines));
}

}  // namespace
}  // namespace imex::log
