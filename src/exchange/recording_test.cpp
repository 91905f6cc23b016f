#include "exchange/recording.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "os/file.hpp"
#include "recording_layout.hpp"
#include "testing/process_ranks.hpp"
#include "testing/ranks.hpp"

namespace imex::exchange {
namespace {

using ::testing::HasSubstr;
using testing_kit::Board;
using testing_kit::direct;
using testing_kit::ProcessRanks;
using testing_kit::reaches;
using testing_kit::run_ranks;
using testing_kit::Verdict;

/// All tests of this program leave their recordings in a folder that goes with it.
class RecordDirectory : public ::testing::Environment {
 public:
  void SetUp() override {
    const auto made = os::make_temporary_directory("imex-records-");
    ASSERT_TRUE(made) << made.error().to_string();
    folder_ = *made;
    ::setenv("IMEX_RECORD_DIR", folder_.c_str(), 1);
  }
  void TearDown() override { ASSERT_TRUE(os::remove_tree(folder_)); }

 private:
  std::string folder_;
};
[[maybe_unused]] const auto* const kRecordDirectory =
    ::testing::AddGlobalTestEnvironment(new RecordDirectory);

/// Begins without what the crashed ranks of other tests have left.
class RecordingTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(os::remove_tree(recording_directory())); }
  void TearDown() override { ::setenv("IMEX_RECORD_DIR", former_.c_str(), 1); }

 private:
  const std::string former_ = recording_directory();
};

/// Those of communicators that live, or whose ranks crashed.
std::vector<Recording> recordings() {
  auto all = read_recordings(recording_directory());
  EXPECT_TRUE(all) << all.error().to_string();
  return all ? *all : std::vector<Recording>{};
}

TEST_F(RecordingTest, TheLastThousandOperationsOfALaneAreThere) {
  run_ranks(2, {.lanes = 2}, [](Communicator& comm) -> Verdict {
    float value = 1;
    for (int i = 0; i != 1500; ++i) {
      if (!comm.all_reduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kMax, 1)) return "sum";
    }
    if (!comm.barrier()) return "barrier";
    if (comm.rank() == 0) {
      const auto all = recordings();
      if (all.size() != 2) return std::to_string(all.size()) + " recordings";
      const RecordedLane& lane = all[1].lanes.at(1);
      if (lane.begun != 1500 || lane.ended != 1500) return "wrong counts";
      if (lane.operations.size() != kRecordsPerLane) return "wrong length";
      const RecordedOperation& last = lane.operations.back();
      if (last.number != 1500 || last.name != "all_reduce" || last.bytes != 4 ||
          last.type != DataType::kFloat32 || last.op != ReduceOp::kMax || !last.ended ||
          last.algorithm == Algorithm::kAuto || !all[1].alive)
        return "wrong record";
      if (lane.operations.front().number != 1500 - kRecordsPerLane + 1) return "wrong first";
    }
    return comm.barrier() ? Verdict{} : "barrier";
  });
  EXPECT_TRUE(recordings().empty()) << "ranks that ended in order leave nothing";
}

int waits_for_ever(Communicator& comm, Board& board) {
  board.arrived.fetch_add(1);
  if (comm.rank() == 1) {
    while (true) ::pause();
  }
  static_cast<void>(comm.barrier());
  return 0;
}

TEST_F(RecordingTest, TellsWhoWaitsForWhomAndOutlivesTheDead) {
  ProcessRanks ranks(2, direct(2, waits_for_ever));
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  ranks.open(rendezvous->id());
  ASSERT_TRUE(reaches([] {
    const auto all = recordings();
    if (all.size() != 2 || all[0].lanes[0].waits_for != 1) return false;
    return all[0].lanes[0].operations.back().name == "barrier";  // after those of create()
  }));
  std::string text =
      describe(recordings(), recordings()[0].lanes[0].waits_since_ns + 2'500'000'000);
  EXPECT_THAT(text, HasSubstr("waits for rank 1 since 2.5 s in barrier of 0 B"));
  EXPECT_THAT(text, HasSubstr("is in no operation"));
  ranks.kill(0);
  ranks.kill(1);
  EXPECT_EQ(ranks.wait(0), -SIGKILL);
  EXPECT_EQ(ranks.wait(1), -SIGKILL);
  const auto left = recordings();
  ASSERT_EQ(left.size(), 2U);
  EXPECT_FALSE(left[0].alive);
  EXPECT_THAT(describe(left, left[0].lanes[0].waits_since_ns), HasSubstr("which is dead, waits"));
  for (const Recording& each : left) os::remove_file(each.path);
}

TEST_F(RecordingTest, ADeadlineComesWithTheReport) {
  run_ranks(2, {.timeout = std::chrono::milliseconds(200)}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1) {
      return reaches([&] { return comm.async_error().has_value(); }) ? Verdict{} : "no error";
    }
    const auto done = comm.barrier();
    if (done || done.error().code != Errc::kDeadlineExceeded) return "no deadline";
    return done.error().hint.find("waits for rank 1 since") != std::string::npos
               ? Verdict{}
               : "hint: " + done.error().hint;
  });
}

TEST_F(RecordingTest, FoldersAndFilesThatMayBeATrapAreLeftAlone) {
  const auto folder = os::make_temporary_directory("imex-trap-");
  ASSERT_TRUE(folder);
  ASSERT_EQ(::mkfifo((*folder + "/fifo").c_str(), 0600), 0);  // opening it would wait for a writer
  const auto found = read_recordings(*folder);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_TRUE(found->empty());
  ASSERT_EQ(::chmod(folder->c_str(), 0777), 0);
  const auto refused = read_recordings(*folder);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermissionDenied);
  // A communicator goes on without a recording.
  ASSERT_EQ(::setenv("IMEX_RECORD_DIR", folder->c_str(), 1), 0);
  run_ranks(2, {}, [](Communicator& comm) { return testing_kit::verdict_of(comm.barrier()); });
  ASSERT_TRUE(os::remove_tree(*folder));
}

TEST_F(RecordingTest, ForeignAndDamagedFilesAreRefused) {
  const auto folder = os::make_temporary_directory("imex-damaged-");
  ASSERT_TRUE(folder);
  const std::string path = *folder + "/recording";
  const auto write = [&](const std::string& bytes) { std::ofstream(path) << bytes; };
  const auto code = [&] {
    const auto found = read_recording(path);
    return found ? Errc::kOk : found.error().code;
  };
  EXPECT_EQ(code(), Errc::kNotFound);
  write("");
  EXPECT_EQ(code(), Errc::kDataLoss);
  write(std::string(kRecordingHeaderBytes + kLaneRecordingBytes, '\xff'));
  EXPECT_EQ(code(), Errc::kDataLoss);
  std::string bytes(kRecordingHeaderBytes + kLaneRecordingBytes, '\0');
  std::memcpy(bytes.data(), &kRecordingMagic, sizeof kRecordingMagic);
  write(bytes);
  EXPECT_EQ(code(), Errc::kVersionMismatch);
  bytes[8] = 1;   // version
  bytes[12] = 2;  // lanes, of which the file has one
  bytes[36] = 1;  // ranks
  write(bytes);
  EXPECT_EQ(code(), Errc::kDataLoss);
  bytes[12] = 1;
  // Every word of the lane is wild: no number is trusted.
  std::fill(bytes.begin() + 64, bytes.end(), '\xee');
  write(bytes);
  const auto wild = read_recording(path);
  ASSERT_TRUE(wild) << wild.error().to_string();
  EXPECT_FALSE(describe({*wild}, 0).empty());
  ASSERT_TRUE(os::remove_tree(*folder));
}

}  // namespace
}  // namespace imex::exchange
