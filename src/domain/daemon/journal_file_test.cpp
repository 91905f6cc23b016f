// The journal on a real disk: who may resume, what a full disk does, that nothing is lost over a
// restart.

#include "journal_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include <gmock/gmock.h>

#include "os/file.hpp"
#include "os/random.hpp"

namespace imex::domain {
namespace {

using std::chrono::seconds;

class JournalFileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("imex-journal-");
    ASSERT_TRUE(made);
    directory_ = *made;
    header_ = fresh();
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(directory_)); }

  /// Another start of the same daemon: new instance and key, all else the same.
  JournalHeader fresh() const {
    JournalHeader header;
    header.boot_id.bytes[0] = std::byte{1};
    header.domain_id.bytes[0] = std::byte{2};
    header.list_digest.bytes[0] = std::byte{3};
    header.node = 4;
    header.instance = os::random_uuid();
    return header;
  }
  JournalFile::Opened open(const JournalHeader& header, Time now) {
    auto opened = JournalFile::open(path(), header, seconds(30), now);
    EXPECT_TRUE(opened) << opened.error().to_string();
    return std::move(*opened);
  }
  [[nodiscard]] std::string path() const { return directory_ + "/persist.dat"; }

  std::string directory_;
  JournalHeader header_;
  const Time start_{1'000'000'000'000};
};

TEST_F(JournalFileTest, ResumesWithinTheLeaseWithAllThatWasWritten) {
  JournalState before;
  {
    auto first = open(header_, start_);
    EXPECT_EQ(first.verdict, ResumeVerdict::kNoJournal);
    ASSERT_TRUE(first.file.append(SessionRecord{7, 1, 0, 9, 11, 13}));
    ASSERT_TRUE(first.file.append(NextIdRecord{4096}));
    ASSERT_TRUE(first.file.append(GrantRecord{"job", 1, 0, {9}}));
    ASSERT_TRUE(first.file.append(ImporterRecord{2, true}));
    first.file.touch(start_ + seconds(10));
    before = first.file.state();
  }
  auto second = open(fresh(), start_ + seconds(40));
  EXPECT_EQ(second.verdict, ResumeVerdict::kResumed);
  EXPECT_EQ(second.file.state().header.instance, header_.instance);
  EXPECT_EQ(second.file.state().sessions, before.sessions);
  EXPECT_EQ(second.file.state().next_id, 4096U);
  EXPECT_EQ(second.file.state().grants, before.grants);
  EXPECT_TRUE(second.former_importers.empty());
}

TEST_F(JournalFileTest, AfterTheLeaseOnlyTheNumbersOfOthersStayAndImportersAreWaitedFor) {
  {
    auto first = open(header_, start_);
    ASSERT_TRUE(first.file.append(SessionRecord{7, 1, 0, 9, 11, 13}));
    ASSERT_TRUE(first.file.append(GrantRecord{"job", 1, 0, {9}}));
    ASSERT_TRUE(first.file.append(AssignmentRecord{{"job", 1, {2, 4}}}));
    ASSERT_TRUE(first.file.append(AssignmentRecord{{"own", 3, {4}}}));
    ASSERT_TRUE(first.file.append(ImporterRecord{2, true}));
  }
  const JournalHeader next = fresh();
  auto second = open(next, start_ + seconds(31));
  EXPECT_EQ(second.verdict, ResumeVerdict::kLeaseOver);
  EXPECT_EQ(second.file.state().header.instance, next.instance);
  EXPECT_TRUE(second.file.state().sessions.empty());
  EXPECT_TRUE(second.file.state().grants.empty());
  const std::map<std::string, ChannelAssignment> of_others{{"job", {"job", 1, {2}}}};
  EXPECT_EQ(second.file.state().assignments, of_others);
  EXPECT_EQ(second.former_importers, std::set<NodeId>{2});
}

TEST_F(JournalFileTest, AnOrderlyStopOrAnotherIdentityIsANewInstance) {
  {
    auto first = open(header_, start_);
    ASSERT_TRUE(first.file.append(GrantRecord{"job", 1, 0, {}}));
    ASSERT_TRUE(first.file.append(AssignmentRecord{{"job", 1, {2, 4}}}));
  }
  JournalHeader other = fresh();
  other.boot_id.bytes[1] = std::byte{9};
  {
    auto rebooted = open(other, start_);
    EXPECT_EQ(rebooted.verdict, ResumeVerdict::kOtherBoot);
    EXPECT_TRUE(rebooted.file.state().grants.empty());
    EXPECT_EQ(rebooted.file.state().assignments.size(), 1U);
    ASSERT_TRUE(rebooted.file.append(CleanStopRecord{}));
  }
  {
    auto stopped = open(other, start_);
    EXPECT_EQ(stopped.verdict, ResumeVerdict::kCleanStop);
    EXPECT_EQ(stopped.file.state().assignments.size(), 1U);
  }
  other.domain_id.bytes[1] = std::byte{9};
  {
    auto stranger = open(other, start_);
    EXPECT_EQ(stranger.verdict, ResumeVerdict::kOtherDomain);
    EXPECT_TRUE(stranger.file.state().assignments.empty());
  }
  other.node = 5;
  auto third = open(other, start_);
  EXPECT_EQ(third.verdict, ResumeVerdict::kOtherNode);
  EXPECT_TRUE(third.file.state().grants.empty());
  ASSERT_TRUE(third.file.append(CleanStopRecord{}));
  EXPECT_EQ(open(other, start_).verdict, ResumeVerdict::kCleanStop);
}

TEST_F(JournalFileTest, AClockBeforeTheJournalsIsNotBelieved) {
  {
    static_cast<void>(open(header_, start_));
  }
  EXPECT_EQ(open(fresh(), start_ - seconds(5)).verdict, ResumeVerdict::kLeaseOver);
}

TEST_F(JournalFileTest, DamageIsANewInstanceNotAnError) {
  const std::string text = "this is no journal at all, whatever the name of the file says";
  ASSERT_TRUE(os::replace_file(path(), std::as_bytes(std::span(text))));
  EXPECT_EQ(open(header_, start_).verdict, ResumeVerdict::kDamaged);
}

/// A disk that ends five bytes behind `path`, in the middle of the next record.
class FullDisk {
 public:
  explicit FullDisk(const std::string& path) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    struct stat facts{};
    EXPECT_EQ(::stat(path.c_str(), &facts), 0);
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &former_), 0);
    const rlimit full{static_cast<rlim_t>(facts.st_size) + 5, former_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &former_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit former_{};
};

TEST_F(JournalFileTest, OnAFullDiskItIsBrokenUntilTheStateIsWrittenAnew) {
  auto opened = open(header_, start_);
  bool failed = false, broken = false, still = false;
  {
    const FullDisk full(path());
    failed = !opened.file.append(GrantRecord{"job", 1, 0, {}});
    broken = opened.file.broken();
    still = !opened.file.append(NextIdRecord{77});
  }
  EXPECT_TRUE(failed && broken && still);
  ASSERT_TRUE(opened.file.rewrite());
  EXPECT_FALSE(opened.file.broken());
  auto second = open(fresh(), start_);
  EXPECT_EQ(second.verdict, ResumeVerdict::kResumed);
  EXPECT_EQ(second.file.state().grants.size(), 1U);  // nothing that failed meanwhile is missing
  EXPECT_EQ(second.file.state().next_id, 77U);
}

TEST_F(JournalFileTest, AnOrderlyStopOnAFullDiskIsNotResumedEither) {
  {
    auto opened = open(header_, start_);
    const FullDisk full(path());
    EXPECT_FALSE(opened.file.append(CleanStopRecord{}));
    opened.file.touch(start_ + seconds(1));  // the last pass of a timer
  }
  EXPECT_EQ(open(fresh(), start_ + seconds(2)).verdict, ResumeVerdict::kLeaseOver);
}

TEST_F(JournalFileTest, IsWrittenAnewWhenItHasGrown) {
  auto opened = open(header_, start_);
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    ASSERT_TRUE(opened.file.append(SessionRecord{1, 1, 0, 9, 11, i}));
  }
  struct stat facts{};
  ASSERT_EQ(::stat(path().c_str(), &facts), 0);
  EXPECT_LT(facts.st_size, 2 << 20);
  EXPECT_EQ(open(fresh(), start_).file.state().sessions.at(1).pid_start_ticks, 59'999U);
}

}  // namespace
}  // namespace imex::domain
