// Ctrl-C of a running benchmark, with the real program: it ends within a second and leaves neither
// a process nor a piece of shared memory.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "os/file.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"

namespace imex::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

std::vector<std::int32_t> children_of(std::int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<std::int32_t> children;
  for (std::int32_t child; file >> child;) children.push_back(child);
  return children;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    names.insert(entry.path().filename());
  }
  return names;
}

/// Looks until `done`, for at most ten seconds.
template <class Done>
bool eventually(Done&& done) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Ended; who reaps it is not ours to say.
bool has_ended(std::int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'Z';
}

/// `imex bench ...` whose ranks have all joined: that is when it says which size it measures.
class Running {
 public:
  static void start(std::vector<std::string> words, const std::string& temporary,
                    std::optional<Running>& running) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    os::UniqueFd read_end(ends[0]);
    const os::UniqueFd write_end(ends[1]);
    words.insert(words.begin(), {IMEX_PROGRAM, "bench"});
    auto child = os::Child::start({.arguments = std::move(words),
                                   .environment = {{"TMPDIR", temporary}},
                                   .stdout_fd = -1,
                                   .stderr_fd = write_end.get()});
    ASSERT_TRUE(child) << child.error().to_string();
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    std::string said;
    while (said.find("1/1") == std::string::npos) {
      ASSERT_TRUE(os::wait_readable(read_end.get(), deadline)) << said;
      char byte = 0;
      ASSERT_EQ(::read(read_end.get(), &byte, 1), 1) << said;
      said += byte;
    }
    auto workers = children_of(child->pid());
    running.emplace(Running{std::move(*child), std::move(workers), std::move(read_end)});
  }

  os::Child command;
  std::vector<std::int32_t> workers;
  os::UniqueFd errors;  ///< open, so that writing to it goes on
};

/// Interrupts the command alone; a terminal would interrupt its workers, too.
void expect_clean_end(const std::string& ranks, const std::string& buffers) {
  const auto before = shared_memory();
  const auto temporary = os::make_temporary_directory("imex-interrupt-");
  ASSERT_TRUE(temporary) << temporary.error().to_string();
  std::optional<Running> running;
  Running::start({"all-reduce", "--ranks", ranks, "--sizes", "4MiB", "--seconds", "3600",
                  "--buffers", buffers},
                 *temporary, running);
  ASSERT_TRUE(running);
  // One rank is the command itself; one more keeps the folder of recordings until all have ended.
  ASSERT_EQ(std::to_string(running->workers.size()), ranks);
  const auto begin = steady_clock::now();
  ASSERT_TRUE(running->command.kill(SIGINT));
  EXPECT_EQ(running->command.wait(std::chrono::seconds(10)), 128 + SIGINT);
  for (const std::int32_t worker : running->workers) {
    EXPECT_TRUE(eventually([&] { return has_ended(worker); })) << worker;
  }
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(fs::is_empty(*temporary));
  EXPECT_TRUE(os::remove_tree(*temporary));
  for (const std::string& name : shared_memory()) {
    EXPECT_TRUE(before.contains(name) || name.find("imex") == std::string::npos) << name;
  }
}

TEST(BenchInterruptTest, TwoRanks) { expect_clean_end("2", "registered"); }
TEST(BenchInterruptTest, MoreRanksThanCores) { expect_clean_end("5", "private"); }

TEST(BenchInterruptTest, ALostRankEndsTheOthers) {
  std::optional<Running> running;
  Running::start({"all-gather", "--ranks", "3", "--sizes", "3MiB", "--seconds", "3600"}, "/tmp",
                 running);
  ASSERT_TRUE(running);
  ASSERT_EQ(running->workers.size(), 3U);  // the keeper of recordings, ranks 1 and 2
  ASSERT_EQ(::kill(running->workers[1], SIGKILL), 0);
  EXPECT_EQ(running->command.wait(std::chrono::seconds(10)), 1);
  EXPECT_TRUE(eventually([&] { return has_ended(running->workers[0]); }));
}

}  // namespace
}  // namespace imex::cli
