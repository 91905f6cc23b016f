#include "bench/worker.hpp"

#include <gtest/gtest.h>

#include "base/result.hpp"
#include "os/process.hpp"

namespace imex::bench {
namespace {

TEST(WorkerTest, NotesAndSamplesCrossTheLine) {
  auto worker = Worker::start([](Line& line) -> Result<void> {
    IMEX_TRY(const Note note, line.receive());
    return line.send_samples(Samples(note.value, 7));
  });
  ASSERT_TRUE(worker) << worker.error().to_string();
  ASSERT_TRUE(worker->line().send({.value = kSamplesMax, .handle = {}}));
  const auto samples = worker->line().receive_samples();
  ASSERT_TRUE(samples) << samples.error().to_string();
  EXPECT_EQ(*samples, Samples(kSamplesMax, 7));
}

TEST(WorkerTest, AWorkerThatEndsEarlyIsAnErrorNotAHang) {
  auto worker = Worker::start([](Line&) -> Result<void> { return {}; });
  ASSERT_TRUE(worker);
  const auto note = worker->line().receive();
  ASSERT_FALSE(note);
  EXPECT_EQ(note.error().code, Errc::kPeerLost);
}

TEST(WorkerTest, DestroyingAWorkerEndsItsProcess) {
  std::int32_t pid = 0;
  {
    auto worker = Worker::start([](Line& line) -> Result<void> {
      static_cast<void>(line.receive());
      return {};
    });
    ASSERT_TRUE(worker);
    pid = worker->pid();
  }
  EXPECT_FALSE(os::open_pidfd(pid));
}

}  // namespace
}  // namespace imex::bench
