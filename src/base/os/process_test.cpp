#include "os/process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "base/time.hpp"
#include "cgroup.hpp"
#include "os/random.hpp"
#include "os/socket.hpp"
#include "test_support.hpp"

namespace imex::os {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPatience = seconds(20);

class ProcessTest : public OsTest {
 protected:
  static Child start(std::vector<std::string> arguments) {
    auto child = Child::start({.arguments = std::move(arguments), .environment = {}});
    EXPECT_TRUE(child) << child.error().to_string();
    return std::move(*child);
  }
  static Child sleeper() { return start({"/bin/sleep", "1000"}); }
  /// What the shell script prints with these options.
  std::string output_of(const std::string& script, Child::Options options = {}) {
    const UniqueFd out(::open(path("out").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    options.arguments = {"/bin/sh", "-c", script};
    options.stdout_fd = out.get();
    auto child = Child::start(options);
    EXPECT_TRUE(child);
    EXPECT_EQ(child->wait(kPatience), 0);
    return *read_file(path("out"));
  }
};

TEST_F(ProcessTest, ExitStatusIsAsTheShellHasIt) {
  EXPECT_EQ(start({"/bin/true"}).wait(kPatience), 0);
  EXPECT_EQ(start({"/bin/sh", "-c", "exit 7"}).wait(kPatience), 7);
  Child child = sleeper();
  EXPECT_EQ(child.wait(milliseconds(0)), std::nullopt);
  ASSERT_TRUE(child.kill(SIGTERM));
  EXPECT_EQ(child.wait(kPatience), 128 + SIGTERM);
  EXPECT_EQ(child.wait(milliseconds(0)), 128 + SIGTERM) << "asked again";
  EXPECT_EQ(child.kill(SIGTERM).error().code, Errc::kNotFound)
      << "the number may be a stranger's by now";
}

TEST_F(ProcessTest, InputCanComeFromAFile) {
  std::ofstream(path("in")) << "words";
  const UniqueFd in(::open(path("in").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(output_of("cat", {.arguments = {}, .environment = {}, .stdin_fd = in.get()}), "words");
}

TEST_F(ProcessTest, ProgramThatCannotStartIsAnErrorWithItsName) {
  const auto missing = Child::start({.arguments = {"/none/program"}, .environment = {}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_NE(missing.error().message.find("/none/program"), std::string::npos);
  EXPECT_EQ(Child::start({.arguments = {"/etc/passwd"}, .environment = {}}).error().code,
            Errc::kPermissionDenied);
  EXPECT_EQ(Child::start({.arguments = {}, .environment = {}}).error().code,
            Errc::kInvalidArgument);
}

TEST_F(ProcessTest, EnvironmentIsInheritedAndOverlaid) {
  ::setenv("IMEX_TEST_KEPT", "kept", 1);
  ::setenv("IMEX_TEST_REPLACED", "old", 1);
  const std::string text = output_of(
      "echo $IMEX_TEST_KEPT $IMEX_TEST_REPLACED $IMEX_TEST_NEW; env | grep -c IMEX_TEST_",
      {.arguments = {}, .environment = {{"IMEX_TEST_REPLACED", "new"}, {"IMEX_TEST_NEW", "a=b"}}});
  EXPECT_EQ(text, "kept new a=b\n3\n");
}

TEST_F(ProcessTest, OutputsGoWhereTheyAreSent) {
  const UniqueFd err(::open(path("err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(output_of("echo out; echo err >&2",
                      {.arguments = {}, .environment = {}, .stderr_fd = err.get()}),
            "out\n");
  EXPECT_EQ(*read_file(path("err")), "err\n");
}

TEST_F(ProcessTest, ChildInheritsNoDescriptorOfOurs) {
  // A number that nothing else in the shell will take.
  const UniqueFd extra(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 500));
  ASSERT_TRUE(extra);
  const std::string number = std::to_string(extra.get());
  EXPECT_EQ(output_of("test -e /proc/$$/fd/1 && echo one; test -e /proc/$$/fd/" + number +
                      " || echo gone"),
            "one\ngone\n");
}

TEST_F(ProcessTest, ChildStartsWithOpenSignals) {
  sigset_t all;
  sigset_t former;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);
  const std::string text = output_of("grep SigBlk /proc/self/status");
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  EXPECT_EQ(text, "SigBlk:\t0000000000000000\n");
}

TEST_F(ProcessTest, DestructionEndsTheChild) {
  UniqueFd watch;
  {
    Child child = sleeper();
    watch = std::move(*open_pidfd(child.pid()));
    Child moved = std::move(child);
    EXPECT_FALSE(wait_readable(watch.get(), Clock::now())) << "moving ends nothing";
  }
  EXPECT_TRUE(wait_readable(watch.get(), Clock::now()));
}

TEST_F(ProcessTest, AssignmentEndsTheFormerChild) {
  Child child = sleeper();
  const UniqueFd watch = std::move(*open_pidfd(child.pid()));
  child = sleeper();
  EXPECT_TRUE(wait_readable(watch.get(), Clock::now()));
  EXPECT_EQ(child.wait(milliseconds(0)), std::nullopt);
}

// The parent is killed, so no destructor runs: only the kernel can end the grandchild.
TEST_F(ProcessTest, ChildDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from_parent(ends[0]);
  UniqueFd to_test(ends[1]);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const auto child = Child::start({.arguments = {"/bin/sleep", "1000"}, .environment = {}});
    const std::int32_t pid = child ? child->pid() : -1;
    if (::write(to_test.get(), &pid, sizeof pid) != sizeof pid) ::_exit(1);
    for (;;) ::pause();
  }
  to_test.reset();
  std::int32_t pid = -1;
  ASSERT_EQ(::read(from_parent.get(), &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  ASSERT_GT(pid, 0);
  const auto watch = open_pidfd(pid);
  ASSERT_TRUE(watch);
  EXPECT_FALSE(wait_readable(watch->get(), Clock::now())) << "lives as long as its parent";
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  EXPECT_TRUE(wait_readable(watch->get(), Clock::now() + kPatience));
  EXPECT_EQ(::waitpid(parent, nullptr, 0), parent);
}

TEST_F(ProcessTest, PidfdNamesItsProcessUntilItIsGone) {
  Child child = sleeper();
  const auto fd = open_pidfd(child.pid());
  ASSERT_TRUE(fd);
  EXPECT_EQ(*pid_of_pidfd(fd->get()), child.pid());
  EXPECT_EQ(wait_readable(fd->get(), Clock::now()).error().code, Errc::kDeadlineExceeded);
  ASSERT_TRUE(signal_pidfd(fd->get(), SIGKILL));
  EXPECT_TRUE(wait_readable(fd->get(), Clock::now() + kPatience));
  EXPECT_EQ(child.wait(kPatience), 128 + SIGKILL);
  EXPECT_EQ(pid_of_pidfd(fd->get()).error().code, Errc::kNotFound);
  EXPECT_EQ(signal_pidfd(fd->get(), SIGKILL).error().code, Errc::kNotFound);
  EXPECT_EQ(open_pidfd(child.pid()).error().code, Errc::kNotFound);
}

TEST_F(ProcessTest, OtherDescriptorsAreNoPidfds) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  // A file may bear the name that the kernel gives to pidfds.
  const std::string trap = path("anon_inode:[pidfd]");
  ASSERT_TRUE(replace_file(trap, {}));
  const UniqueFd file(::open(trap.c_str(), O_RDONLY | O_CLOEXEC));
  for (const int fd : {read_end.get(), file.get(), -1, 1'000'000}) {
    EXPECT_EQ(pid_of_pidfd(fd).error().code, Errc::kInvalidArgument) << fd;
  }
  EXPECT_EQ(open_pidfd(0).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(open_pidfd(-5).error().code, Errc::kInvalidArgument);
}

TEST_F(ProcessTest, StartTicksTellProcessesApart) {
  const auto own = process_start_ticks(::getpid());
  ASSERT_TRUE(own);
  EXPECT_EQ(*own, *process_start_ticks(::getpid()));
  // A name with what separates the fields must not shift them: 22 would become another field.
  ASSERT_EQ(::symlink("/bin/sleep", path("a) R (1 2").c_str()), 0);
  Child child = start({path("a) R (1 2"), "1000"});
  const auto ticks = process_start_ticks(child.pid());
  ASSERT_TRUE(ticks) << ticks.error().to_string();
  EXPECT_GE(*ticks, *own);
  const auto ticks_per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const auto up_ticks = static_cast<std::uint64_t>(now().ns) / 1000 * ticks_per_second / 1'000'000;
  EXPECT_LE(*ticks, up_ticks + ticks_per_second);
  ASSERT_TRUE(child.kill(SIGKILL));
  EXPECT_EQ(child.wait(kPatience), 128 + SIGKILL);
  EXPECT_EQ(process_start_ticks(child.pid()).error().code, Errc::kNotFound);
}

TEST_F(ProcessTest, UsableCoresFollowTheAffinityMask) {
  const unsigned all = usable_cores();
  EXPECT_GE(all, 1U);
  EXPECT_LE(all, std::thread::hardware_concurrency());
  unsigned narrowed = 0;
  std::thread thread([&] {
    const int core = ::sched_getcpu();
    ASSERT_GE(core, 0);
    ASSERT_TRUE(pin_to_core(static_cast<unsigned>(core)));
    EXPECT_EQ(::sched_getcpu(), core);
    narrowed = usable_cores();
  });
  thread.join();
  EXPECT_EQ(narrowed, 1U);
  EXPECT_EQ(usable_cores(), all) << "other threads keep theirs";
  EXPECT_EQ(pin_to_core(100'000).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(pin_to_core(65'000).error().code, Errc::kInvalidArgument);
}

/// A tree of control groups in a folder, as the kernel shows it.
class QuotaTest : public OsTest {
 protected:
  void write(const std::string& file, std::string_view text) {
    ASSERT_TRUE(make_directories(std::filesystem::path(path(file)).parent_path().string()));
    ASSERT_TRUE(replace_file(path(file), std::as_bytes(std::span(text))));
  }
  std::optional<double> quota(std::string_view cgroup, std::string_view mountinfo) {
    return cpu_quota(cgroup, mountinfo, path(""));
  }
};

constexpr std::string_view kV2Mounts =
    "22 1 0:20 / /proc rw - proc proc rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr std::string_view kV1Mounts =
    "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 23 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(QuotaTest, LeastOfAllGroupsAboveCounts) {
  write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota("0::/a/b/c\n", kV2Mounts), 2.5);
  write("sys/fs/cgroup/a/b/c/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota("0::/a/b/c\n", kV2Mounts), 0.5);
}

TEST_F(QuotaTest, NoQuotaIsNothing) {
  EXPECT_EQ(quota("0::/\n", kV2Mounts), std::nullopt);
  write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a\n", kV2Mounts), std::nullopt);
  EXPECT_EQ(quota("", ""), std::nullopt);
}

TEST_F(QuotaTest, FirstVersionInAContainerIsReadAtTheMount) {
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n", kV1Mounts), 1.5);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota("4:cpu,cpuacct:/docker/abc\n", kV1Mounts), std::nullopt);
}

TEST_F(QuotaTest, MalformedFilesAreNoQuota) {
  for (const std::string_view text :
       {"", "x y\n", "100000\n", "100000 0\n", "-5 100000\n", "1e 1\n", "max\n"}) {
    write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(quota("0::/a\n", kV2Mounts), std::nullopt) << text;
  }
  write("sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  for (const std::string_view text : {"garbage", "0:", "0::", ":::", "0::/../../a\n", "\n\n"}) {
    EXPECT_EQ(quota(text, kV2Mounts), std::nullopt) << text;
    EXPECT_EQ(quota("0::/a\n", text), std::nullopt) << text;
  }
}

TEST_F(ProcessTest, ClockNeverRunsBackwards) {
  Time last = now();
  for (int i = 0; i < 1000; ++i) {
    const Time next = now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST_F(ProcessTest, MachineHasABootIdAndAName) {
  const auto id = boot_id();
  ASSERT_TRUE(id) << id.error().to_string();
  EXPECT_FALSE(id->is_nil());
  EXPECT_EQ(*id, *boot_id());
  EXPECT_FALSE(host_name().empty());
}

TEST_F(ProcessTest, RandomUuidsAreOfVersionFourAndDiffer) {
  std::set<Uuid> seen;
  for (int i = 0; i < 1000; ++i) {
    const Uuid id = random_uuid();
    const std::string text = id.to_string();
    ASSERT_EQ(text[14], '4') << text;
    ASSERT_NE(std::string_view("89ab").find(text[19]), std::string_view::npos) << text;
    ASSERT_TRUE(seen.insert(id).second);
  }
}

// Each of 4096 bytes stays zero with 1/256: none of ten fills leaves the same byte alone.
TEST_F(ProcessTest, SystemRandomFillsEveryByte) {
  std::vector<std::byte> touched(4096);
  SystemRandom random;
  for (int i = 0; i < 10; ++i) {
    std::vector<std::byte> bytes(touched.size());
    random.fill(bytes);
    std::transform(bytes.begin(), bytes.end(), touched.begin(), touched.begin(), std::bit_or<>());
  }
  EXPECT_EQ(std::count(touched.begin(), touched.end(), std::byte{0}), 0);
}

}  // namespace
}  // namespace imex::os
