#include "log/log.hpp"

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/file.hpp"
#include "os/thread.hpp"

namespace imex::log {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  if (start != text.size()) lines.push_back(text.substr(start) + " (no line end)");
  return lines;
}

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = os::make_temporary_directory("imex-log").value(); }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(folder_)); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::vector<std::string> lines(const std::string& name) const {
    return lines_of(os::read_file(path(name)).value_or(""));
  }
  [[nodiscard]] Options to_file(bool with_headline = false) const {
    Options options;
    options.file = path("log");
    options.headline = with_headline;
    return options;
  }

 private:
  std::string folder_;
};

TEST_F(LogTest, FirstLineAndShapeAreThoseOfNvidiaImex) {
  Logger log(to_file(true));
  log.info("Identified this node as ID 0", {{"node", 0}});
  const auto written = lines("log");
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_THAT(written[0], MatchesRegex("IMEX Log initializing at: [0-9]+/[0-9]+/20[0-9]{2} "
                                       "[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}"));
  EXPECT_THAT(written[1],
              MatchesRegex("\\[[A-Z][a-z]{2} [0-9]{2} 20[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\] "
                           "\\[INFO\\] \\[tid [0-9]+\\] Identified this node as ID 0 node=0"));
  EXPECT_THAT(written[1], HasSubstr("[tid " + std::to_string(os::thread_id()) + "]"));
}

TEST_F(LogTest, ThresholdDecidesWhatGoesOut) {
  for (int number = 0; number <= 6; ++number) {
    Options options = to_file();
    options.append = false;
    options.threshold = level_from_number(number).value();
    Logger log(options);
    log.critical("1");
    log.error("2");
    log.warn("3");
    log.info("4");
    log.debug("5");
    log.trace("6");
    EXPECT_THAT(lines("log"), SizeIs(static_cast<std::size_t>(number)));
  }
}

TEST_F(LogTest, ThresholdCanChange) {
  Logger log(to_file());
  log.set_threshold(Level::kError);
  log.info("no");
  log.set_threshold(Level::kDebug);
  log.debug("yes");
  EXPECT_THAT(lines("log"), ElementsAre(EndsWith("yes")));
  EXPECT_TRUE(log.enabled(Level::kDebug));
  EXPECT_FALSE(log.enabled(Level::kTrace));
  EXPECT_FALSE(log.enabled(Level::kOff));
}

TEST_F(LogTest, FileIsAppendedToOrEmptied) {
  for (const bool append : {true, true, false}) {
    Options options = to_file();
    options.append = append;
    Logger(options).info("line");
  }
  EXPECT_THAT(lines("log"), SizeIs(1));
  Logger(to_file()).info("line");
  EXPECT_THAT(lines("log"), SizeIs(2));
}

TEST_F(LogTest, NoFileNameIsStandardErrorWithoutComplaint) {
  ::testing::internal::CaptureStderr();
  {
    Options options;
    options.headline = false;
    Logger log(options);
    log.info("hello");
    EXPECT_FALSE(log.fell_back());
  }
  EXPECT_THAT(lines_of(::testing::internal::GetCapturedStderr()), ElementsAre(EndsWith("] hello")));
}

TEST_F(LogTest, UnopenableFileFallsBackToStandardErrorWithAWarning) {
  ::testing::internal::CaptureStderr();
  Options options = to_file();
  options.file = path("none/log");
  Logger log(options);
  log.info("still here");
  EXPECT_TRUE(log.fell_back());
  EXPECT_THAT(
      lines_of(::testing::internal::GetCapturedStderr()),
      ElementsAre(AllOf(HasSubstr("[WARNING]"), HasSubstr("none/log"), HasSubstr("No such file")),
                  AllOf(HasSubstr("[WARNING]"), HasSubstr("standard error")),
                  EndsWith("still here")));
}

TEST_F(LogTest, RotationKeepsNFilesAndLosesNothingInBetween) {
  Options options = to_file();
  options.file_bytes_max = 500;
  options.rotated_count = 2;
  constexpr int kLines = 40;
  Logger log(options);
  for (int i = 0; i < kLines; ++i) log.info("line", {{"number", i}});
  std::vector<std::string> kept = lines("log.2");
  for (const std::string name : {"log.1", "log"}) {
    for (std::string& line : lines(name)) kept.push_back(std::move(line));
  }
  for (const std::string name : {"log", "log.1", "log.2"}) {
    EXPECT_LE(std::filesystem::file_size(path(name)), 500U);
    EXPECT_GT(std::filesystem::file_size(path(name)), 0U);
  }
  EXPECT_FALSE(std::filesystem::exists(path("log.3")));
  ASSERT_GT(kept.size(), 10U);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t number = static_cast<std::size_t>(kLines) - kept.size() + i;
    EXPECT_THAT(kept[i], EndsWith("number=" + std::to_string(number)));
  }
  EXPECT_EQ(log.lost_count(), 0U);
}

TEST_F(LogTest, RotationCountsWhatAnEarlierRunHadWritten) {
  Options options = to_file();
  options.file_bytes_max = 200;
  options.rotated_count = 1;
  for (int i = 0; i < 4; ++i) Logger(options).info(std::string(60, 'x'));
  EXPECT_LE(std::filesystem::file_size(path("log")), 200U);
  EXPECT_TRUE(std::filesystem::exists(path("log.1")));
}

TEST_F(LogTest, WithoutRotationTheLogStopsAtItsLimit) {
  Options options = to_file();
  options.file_bytes_max = 500;
  options.rotated_count = 0;
  Logger log(options);
  for (int i = 0; i < 40; ++i) log.info("line", {{"number", i}});
  const std::size_t written = lines("log").size();
  EXPECT_LE(std::filesystem::file_size(path("log")), 500U);
  EXPECT_GE(written, 5U);
  EXPECT_EQ(log.lost_count(), 40 - written);
  EXPECT_FALSE(std::filesystem::exists(path("log.1")));
  EXPECT_THAT(log.ring(), HasSubstr("number=39")) << "the ring goes on";
}

TEST_F(LogTest, FullDiskLosesLinesAndNothingElse) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  Options options = to_file();
  options.file = "/dev/full";
  Logger log(options);
  log.info("a");
  log.info("b");
  EXPECT_EQ(log.lost_count(), 2U);
}

TEST_F(LogTest, ReopenFollowsARenamedFile) {
  Logger log(to_file());
  log.info("one");
  ASSERT_TRUE(os::rename_file(path("log"), path("moved")));
  log.info("two");
  log.reopen();
  log.info("three");
  EXPECT_THAT(lines("moved"), ElementsAre(EndsWith("one"), EndsWith("two")));
  EXPECT_THAT(lines("log"), ElementsAre(EndsWith("three")));
}

TEST_F(LogTest, JsonLinesAreJsonFromTheFirst) {
  Options options = to_file(true);
  options.format = Format::kJson;
  Logger log(options);
  log.warn("peer lost", {{"peer", 4}});
  const auto written = lines("log");
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_THAT(written[0],
              AllOf(StartsWith("{\"time\":\""), HasSubstr("IMEX Log initializing at: ")));
  EXPECT_THAT(written[1], HasSubstr(R"("level":"warn")"));
  EXPECT_THAT(written[1], EndsWith(R"("text":"peer lost","peer":4})"));
}

TEST_F(LogTest, SyslogTakesTextWithoutTime) {
  ::testing::internal::CaptureStderr();
  {
    Options options = to_file();
    options.syslog = true;
    options.syslog_name = "imex-test";
    options.syslog_to_stderr = true;
    Logger log(options);
    log.warn("disk low", {{"percent", 5}});
    log.debug("below the threshold");
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              MatchesRegex("imex-test\\[[0-9]+\\]: disk low percent=5\n"));
  EXPECT_FALSE(std::filesystem::exists(path("log")));
}

TEST_F(LogTest, RingHasDebugLinesThatTheFileHasNot) {
  Logger log(to_file());
  log.debug("hidden");
  log.trace("deeper");
  log.info("shown");
  EXPECT_THAT(lines("log"), ElementsAre(EndsWith("shown")));
  EXPECT_THAT(lines_of(log.ring()), ElementsAre(EndsWith("hidden"), EndsWith("shown")));
  ASSERT_TRUE(log.dump_ring(path("verbose")));
  EXPECT_EQ(*os::read_file(path("verbose")), log.ring());
  EXPECT_EQ(log.dump_ring(path("none/verbose")).error().code, Errc::kNotFound);
}

TEST_F(LogTest, RingIsBoundedAndKeepsTheLatest) {
  Options options = to_file();
  options.ring_bytes = 1000;
  Logger log(options);
  for (int i = 0; i < 1000; ++i) log.debug("line", {{"number", i}});
  log.debug(std::string(2000, 'x'));  // larger than the whole ring: left out
  const auto kept = lines_of(log.ring());
  EXPECT_LE(log.ring().size(), 1000U);
  ASSERT_GT(kept.size(), 10U);
  EXPECT_THAT(kept.back(), EndsWith("number=999"));
  EXPECT_THAT(kept.front(), EndsWith("number=" + std::to_string(1000 - kept.size())));
}

TEST_F(LogTest, RingCanBeOff) {
  Options options = to_file();
  options.ring_bytes = 0;
  Logger log(options);
  EXPECT_FALSE(log.enabled(Level::kDebug));
  log.info("x");
  EXPECT_THAT(log.ring(), IsEmpty());
}

TEST_F(LogTest, RepetitionsAreHeldBackAndCounted) {
  Time now{};
  Options options = to_file();
  options.repeat_interval = seconds(30);
  options.clock = [&now] { return now; };
  {
    Logger log(options);
    for (int i = 0; i < 500; ++i) log.limited(Level::kWarn, "peer refuses", {{"attempt", i}});
    EXPECT_THAT(lines("log"), ElementsAre(EndsWith("peer refuses attempt=0")));
    log.report_suppressed();
    EXPECT_THAT(lines("log"), SizeIs(1));
    now = now + seconds(30);
    log.report_suppressed();
    EXPECT_THAT(lines("log").back(), EndsWith("499 more suppressed: peer refuses"));
    log.limited(Level::kWarn, "peer refuses", {{"attempt", 500}});
    log.limited(Level::kWarn, "peer refuses", {{"attempt", 501}});
    EXPECT_THAT(lines("log").back(), EndsWith("attempt=500"));
  }
  EXPECT_THAT(lines("log").back(), EndsWith("1 more suppressed: peer refuses"))
      << "at the end of the log";
}

TEST_F(LogTest, LinesOfManyThreadsAreWhole) {
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  Options options = to_file();
  options.file_bytes_max = 20'000;
  options.rotated_count = 20;
  Logger log(options);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&log, thread] {
      for (int i = 0; i < kLines; ++i) {
        log.info("line", {{"thread", thread}, {"number", i}});
        log.limited(Level::kDebug, "repeated");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path(""))) {
    for (const std::string& line : lines_of(os::read_file(entry.path().string()).value())) {
      EXPECT_THAT(
          line,
          MatchesRegex("\\[[^]]+\\] \\[INFO\\] \\[tid [0-9]+\\] line thread=[0-9] number=[0-9]+"));
      ++count;
    }
  }
  EXPECT_EQ(count, static_cast<std::size_t>(kThreads * kLines));
  EXPECT_EQ(log.lost_count(), 0U);
}

}  // namespace
}  // namespace imex::log
