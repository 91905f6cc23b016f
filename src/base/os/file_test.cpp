#include "os/file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "os/process.hpp"
#include "test_support.hpp"

namespace imex::os {
namespace {

class FileTest : public OsTest {
 protected:
  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  static mode_t mode_of(const std::string& at) {
    struct stat facts{};
    EXPECT_EQ(::stat(at.c_str(), &facts), 0) << at;
    return facts.st_mode & 07777U;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(path("")), {}));
  }
};

TEST_F(FileTest, WhatWasReplacedIsReadBack) {
  for (const std::size_t size : {0U, 1U, 65'536U, 65'537U, 1'000'000U}) {
    const std::string text(size, 'x');
    ASSERT_TRUE(replace_file(path("f"), bytes_of(text), 0640));
    EXPECT_EQ(*read_file(path("f")), text);
  }
  EXPECT_EQ(mode_of(path("f")), 0640U);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, ReadStopsAtItsLimit) {
  ASSERT_TRUE(replace_file(path("f"), bytes_of("12345")));
  EXPECT_EQ(*read_file(path("f"), 5), "12345");
  EXPECT_EQ(read_file(path("f"), 4).error().code, Errc::kResourceExhausted);
  EXPECT_EQ(read_file(path("f"), 0).error().code, Errc::kResourceExhausted);
  EXPECT_EQ(read_file("/dev/zero", 1000).error().code, Errc::kResourceExhausted);
  EXPECT_FALSE(read_file("/proc/self/status")->empty()) << "a file without a size";
}

TEST_F(FileTest, APipeHoldsUpNobody) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(path("pipe")).value(), "") << "nobody writes";
  EXPECT_FALSE(open_for_append(path("pipe"), false)) << "nobody reads";
  const UniqueFd writer(::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(read_file(path("pipe"))) << "a writer that says nothing";
  ASSERT_EQ(::write(writer.get(), "12345", 5), 5);
  EXPECT_EQ(read_file(path("pipe"), 4).error().code, Errc::kResourceExhausted);
}

TEST_F(FileTest, ReadErrorsHaveTheirCodes) {
  EXPECT_EQ(read_file(path("none")).error().code, Errc::kNotFound);
  EXPECT_EQ(read_file(path("")).error().code, Errc::kInvalidArgument);
}

// A descriptor on the old file must still see the old bytes: the new ones came by another file.
TEST_F(FileTest, ReplaceLeavesReadersTheOldFile) {
  ASSERT_TRUE(replace_file(path("f"), bytes_of("old")));
  const UniqueFd reader(::open(path("f").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(replace_file(path("f"), bytes_of("new")));
  char text[4] = {};
  EXPECT_EQ(::read(reader.get(), text, 3), 3);
  EXPECT_STREQ(text, "old");
  EXPECT_EQ(*read_file(path("f")), "new");
}

TEST_F(FileTest, FailedReplaceLeavesNothingBehind) {
  ASSERT_TRUE(make_directories(path("taken")));
  EXPECT_FALSE(replace_file(path("taken"), bytes_of("x"))) << "a directory of that name";
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(replace_file(path("none/f"), bytes_of("x")).error().code, Errc::kNotFound);
}

TEST_F(FileTest, FullDiskIsReportedAndTheOldFileStays) {
  ASSERT_TRUE(replace_file(path("f"), bytes_of("old")));
  // The limit of a file's size stands in for a full disk; its signal is ignored in a child process.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text(2000, 'x');
    ::_exit(replace_file(path("f"), bytes_of(text)) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the write failed";
  EXPECT_EQ(*read_file(path("f")), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, AppendingStartsAtTheEndOrFromNothing) {
  const mode_t former = ::umask(0777);
  const auto first = open_for_append(path("f"), true, 0640);
  ::umask(former);
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_EQ(mode_of(path("f")), 0640U);
  ASSERT_TRUE(write_all(first->get(), bytes_of("one"), "f"));
  const auto second = open_for_append(path("f"), false, 0600);
  ASSERT_TRUE(second);
  ASSERT_TRUE(write_all(second->get(), bytes_of("two"), "f"));
  EXPECT_EQ(*read_file(path("f")), "onetwo");
  EXPECT_EQ(mode_of(path("f")), 0640U) << "an existing file keeps its mode";
  ASSERT_TRUE(open_for_append(path("f"), true));
  EXPECT_EQ(*read_file(path("f")), "");
  EXPECT_EQ(open_for_append(path("none/f"), false).error().code, Errc::kNotFound);
  EXPECT_EQ(open_for_append(path(""), false).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(write_all(-1, bytes_of("x"), "f"));
}

TEST_F(FileTest, RenamingReplacesTheTarget) {
  ASSERT_TRUE(replace_file(path("a"), bytes_of("a")));
  ASSERT_TRUE(replace_file(path("b"), bytes_of("b")));
  ASSERT_TRUE(rename_file(path("a"), path("b")));
  EXPECT_EQ(*read_file(path("b")), "a");
  EXPECT_EQ(rename_file(path("a"), path("b")).error().code, Errc::kNotFound);
}

TEST_F(FileTest, DirectoriesAreMadeWithTheirModesWhateverTheUmask) {
  const mode_t former = ::umask(0777);
  const auto made = make_directories(path("a/b//c/"), 0711);
  ::umask(former);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(mode_of(path("a")), 0755U);
  EXPECT_EQ(mode_of(path("a/b")), 0755U);
  EXPECT_EQ(mode_of(path("a/b/c")), 0711U);
  EXPECT_TRUE(make_directories(path("a/b/c"), 0700)) << "an existing one is fine";
  EXPECT_EQ(mode_of(path("a/b/c")), 0711U) << "and is left as it is";
  EXPECT_TRUE(make_directories("/"));
  EXPECT_EQ(make_directories("").error().code, Errc::kInvalidArgument);
}

TEST_F(FileTest, FileInTheWayOfADirectoryIsAnError) {
  ASSERT_TRUE(replace_file(path("f"), {}));
  EXPECT_EQ(make_directories(path("f")).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(make_directories(path("f/sub")).error().code, Errc::kInvalidArgument);
}

TEST_F(FileTest, SecondHolderOfALockLearnsWhoHasIt) {
  auto lock = lock_file(path("lock"));
  ASSERT_TRUE(lock) << lock.error().to_string();
  const auto second = lock_file(path("lock"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kAlreadyExists);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())), std::string::npos)
      << second.error().message;
  lock->reset();
  EXPECT_TRUE(lock_file(path("lock")));
}

TEST_F(FileTest, LockOfAKilledProcessIsFree) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd locked(ends[0]);
  UniqueFd report(ends[1]);
  const pid_t holder = ::fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    const auto lock = lock_file(path("lock"));
    const char done = lock ? 'y' : 'n';
    if (::write(report.get(), &done, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char done = 0;
  ASSERT_EQ(::read(locked.get(), &done, 1), 1);
  EXPECT_EQ(done, 'y');
  const auto refused = lock_file(path("lock"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("process " + std::to_string(holder)), std::string::npos);
  ASSERT_EQ(::kill(holder, SIGKILL), 0);
  ASSERT_EQ(::waitpid(holder, nullptr, 0), holder);
  EXPECT_TRUE(lock_file(path("lock")));
}

TEST_F(FileTest, WhetherALockIsHeldCanBeAskedWithoutTakingIt) {
  EXPECT_FALSE(is_locked(path("lock")));
  auto lock = lock_file(path("lock"));
  ASSERT_TRUE(lock) << lock.error().to_string();
  EXPECT_TRUE(is_locked(path("lock")));
  lock->reset();
  EXPECT_FALSE(is_locked(path("lock")));
  EXPECT_TRUE(lock_file(path("lock")));
}

TEST_F(FileTest, LockThroughASymbolicLinkIsRefused) {
  ASSERT_EQ(::symlink("/etc/passwd", path("lock").c_str()), 0);
  EXPECT_FALSE(lock_file(path("lock")));
}

TEST_F(FileTest, TreesAreRemovedWithoutFollowingLinks) {
  ASSERT_TRUE(make_directories(path("tree/deep/er")));
  ASSERT_TRUE(make_directories(path("outside")));
  ASSERT_TRUE(replace_file(path("outside/kept"), bytes_of("x")));
  ASSERT_TRUE(replace_file(path("tree/deep/f"), bytes_of("x")));
  ASSERT_EQ(::symlink(path("outside").c_str(), path("tree/link").c_str()), 0);
  EXPECT_TRUE(remove_tree(path("tree")));
  EXPECT_TRUE(remove_tree(path("tree"))) << "missing is fine";
  EXPECT_TRUE(read_file(path("outside/kept")));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, TemporaryDirectoriesDifferAndObeyTmpdir) {
  const char* former = std::getenv("TMPDIR");
  const std::string kept = former != nullptr ? former : "";
  ::setenv("TMPDIR", path("").c_str(), 1);
  const auto first = make_temporary_directory("t");
  const auto second = make_temporary_directory("t");
  ::setenv("TMPDIR", path("none").c_str(), 1);
  const auto missing = make_temporary_directory("t");
  if (former != nullptr)
    ::setenv("TMPDIR", kept.c_str(), 1);
  else
    ::unsetenv("TMPDIR");
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->rfind(path(""), 0), 0U);
  EXPECT_EQ(mode_of(*first), 0700U);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace imex::os
