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

TEST_F(JournalFileTest, AfterTheLeaseOnlyGrantsStayAndImportersAreWaitedFor) {
  {
    auto first = open(header_, start_);
    ASSERT_TRUE(first.file.append(SessionRecord{7, 1, 0, 9, 11, 13}));
    ASSERT_TRUE(first.file.append(GrantRecord{"job", 1, 0, {9}}));
    ASSERT_TRUE(first.file.append(ImporterRecord{2, true}));
  }
  const JournalHeader next = fresh();
  auto second = open(next, start_ + seconds(31));
  EXPECT_EQ(second.verdict, ResumeVerdict::kLeaseOver);
  EXPECT_EQ(second.file.state().header.instance, next.instance);
  EXPECT_TRUE(second.file.state().sessions.empty());
  EXPECT_EQ(second.file.state().grants.size(), 1U);
  EXPECT_EQ(second.former_importers, std::set<NodeId>{2});
}

TEST_F(JournalFileTest, AnOrderlyStopOrAnotherIdentityIsANewInstance) {
  {
    ASSERT_TRUE(open(header_, start_).file.append(GrantRecord{"job", 1, 0, {}}));
  }
  JournalHeader other = fresh();
  other.boot_id.bytes[1] = std::byte{9};
  EXPECT_EQ(open(other, start_).verdict, ResumeVerdict::kOtherBoot);
  other.domain_id.bytes[1] = std::byte{9};
  EXPECT_EQ(open(other, start_).verdict, ResumeVerdict::kOtherDomain);
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

TEST_F(JournalFileTest, OnAFullDiskItIsBrokenUntilTheStateIsWrittenAnew) {
  auto opened = open(header_, start_);
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &former), 0);
  struct stat facts{};
  ASSERT_EQ(::stat(path().c_str(), &facts), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  // A disk that ends in the middle of the next record.
  const rlimit full{static_cast<rlim_t>(facts.st_size) + 5, former.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const auto failed = opened.file.append(GrantRecord{"job", 1, 0, {}});
  const bool broken = opened.file.broken();
  const bool still = !opened.file.append(NextIdRecord{77});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_FALSE(failed);
  EXPECT_TRUE(broken && still);
  ASSERT_TRUE(opened.file.rewrite());
  EXPECT_FALSE(opened.file.broken());
  auto second = open(fresh(), start_);
  EXPECT_EQ(second.verdict, ResumeVerdict::kResumed);
  EXPECT_EQ(second.file.state().grants.size(), 1U);  // nothing that failed meanwhile is missing
  EXPECT_EQ(second.file.state().next_id, 77U);
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
