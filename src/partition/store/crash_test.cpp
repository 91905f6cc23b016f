// A process that writes is killed in the middle: what it was told is committed is there, and
// everything that is there is whole and there once.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "os/file.hpp"
#include "os/process.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::testing {
namespace {

constexpr int kWriters = 4;
constexpr const char* kUrl = "IMEX_CRASH_URL";
constexpr const char* kKey = "IMEX_CRASH_KEY";
constexpr const char* kTenant = "IMEX_CRASH_TENANT";
constexpr const char* kSite = "IMEX_CRASH_SITE";
constexpr const char* kRound = "IMEX_CRASH_ROUND";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Writes partitions from several threads until it is killed; a line for each once it is committed.
TEST(CrashingWriter, WritesUntilItIsKilled) {
  if (variable(kUrl).empty()) GTEST_SKIP() << "run by StoreCrashTest";
  const auto store = must(Store::open({.url = variable(kUrl), .key_file = variable(kKey)}));
  World world;
  world.tenant.id = {must(Uuid::parse(variable(kTenant)))};
  world.site.id = {must(Uuid::parse(variable(kSite)))};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer)
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 1'000'000; ++i) {
        LogicalPartition partition = new_partition(
            world, variable(kRound) + "-" + std::to_string(writer) + "-" + std::to_string(i));
        must(store->write(kTester, [&](WriteTransaction& t) { return t.insert(partition); }));
        std::printf("committed %s\n", partition.name.c_str());
        std::fflush(stdout);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

class StoreCrashTest : public StoreTest {
 protected:
  /// Names that the killed child was told are committed.
  std::set<std::string> run_and_kill(const World& world, int round, std::size_t lines) {
    const std::string folder = must(os::make_temporary_directory("imex-crash"));
    const std::string output = folder + "/out";
    const os::UniqueFd out = must(os::open_for_append(output, false));
    const StoreOptions options = database_->options();
    os::Child child = must(os::Child::start(
        {.arguments = {"/proc/self/exe", "--gtest_filter=CrashingWriter.WritesUntilItIsKilled"},
         .environment = {{kUrl, options.url},
                         {kKey, options.key_file},
                         {kTenant, world.tenant.id.to_string()},
                         {kSite, world.site.id.to_string()},
                         {kRound, std::to_string(round)}},
         .stdout_fd = out.get()}));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (committed_in(output).size() < lines && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    must(child.kill(SIGKILL));
    EXPECT_EQ(child.wait(std::chrono::seconds(60)), 128 + SIGKILL);
    auto names = committed_in(output);
    must(os::remove_tree(folder));
    return names;
  }
  /// A line that the kill cut short does not count.
  static std::set<std::string> committed_in(const std::string& path) {
    std::istringstream text(must(os::read_file(path)));
    std::set<std::string> names;
    std::string line;
    while (std::getline(text, line) && !text.eof())
      if (line.starts_with("committed ")) names.insert(line.substr(10));
    return names;
  }
};

TEST_F(StoreCrashTest, NothingCommittedIsLostAndNothingIsDoubled) {
  const World world = make_world(store());
  std::set<std::string> promised;
  for (int round = 0; round < 3; ++round) {
    store_.reset();
    promised.merge(run_and_kill(world, round, 15));
    store_ = must(Store::open(database_->options()));
  }
  EXPECT_GE(promised.size(), 45U) << "the child wrote too little to tell";
  std::multiset<std::string> found;
  for (const LogicalPartition& partition : list<LogicalPartition>()) {
    found.insert(partition.name);
    EXPECT_EQ(history(Kind::kLogicalPartition, partition.id.to_string()).size(), 1U);
  }
  for (const std::string& name : promised) EXPECT_EQ(found.count(name), 1U) << name;
  EXPECT_LE(found.size(), promised.size() + std::size_t{3} * kWriters);
  std::size_t lines = 0;
  for (const AuditRecord& record : audit()) lines += record.kind == Kind::kLogicalPartition ? 1 : 0;
  EXPECT_EQ(lines, found.size()) << "each has its line in the audit log, and no more";
}

}  // namespace
}  // namespace imex::partition::testing
