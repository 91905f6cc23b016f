// What a stranger sees of ranks that wait, with the real program.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <imex/communicator.hpp>

#include "os/file.hpp"
#include "os/process.hpp"
#include "output.hpp"

namespace imex::cli {
namespace {

/// The output of `imex status --communicator`; empty where it failed.
std::string status(std::vector<std::string> words, const std::string& folder) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const os::UniqueFd read_end(ends[0]);
  os::UniqueFd write_end(ends[1]);
  words.insert(words.begin(), {IMEX_PROGRAM, "status", "--communicator", "--quiet"});
  auto child = os::Child::start({.arguments = std::move(words),
                                 .environment = {{"IMEX_RECORD_DIR", folder}},
                                 .stdout_fd = write_end.get()});
  if (!child) return {};
  write_end.reset();
  std::string out;
  char buffer[4096];
  for (ssize_t bytes; (bytes = ::read(read_end.get(), buffer, sizeof buffer)) > 0;) {
    out.append(buffer, static_cast<std::size_t>(bytes));
  }
  return child->wait(std::chrono::seconds(60)).value_or(-1) == 0 ? out : "";
}

TEST(CommunicatorStatusTest, ShowsWhoWaitsForWhom) {
  const auto folder = os::make_temporary_directory("imex-status-");
  ASSERT_TRUE(folder);
  ::setenv("IMEX_RECORD_DIR", folder->c_str(), 1);
  EXPECT_EQ(Json::parse(status({"--format", "json"}, *folder))["lanes"].size(), 0U);

  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  auto waits = [&] {
    auto comm = Communicator::create(rendezvous->id(), 1, 2);
    ASSERT_TRUE(comm) << comm.error().to_string();
    static_cast<void>(comm->barrier());  // ends when rank 0 does
  };
  std::thread waiting(waits);
  {
    auto comm = Communicator::create(rendezvous->id(), 0, 2);
    ASSERT_TRUE(comm) << comm.error().to_string();
    Json lane;
    for (int i = 0; i != 100; ++i) {
      const Json lanes = Json::parse(status({"--format", "json", "--operations", "1"}, *folder));
      ASSERT_EQ(lanes["lanes"].size(), 2U);
      lane = lanes["lanes"][1];
      if (lane["waits_for"] == 0 && lane["operations"][0]["operation"] == "barrier") break;
    }
    EXPECT_EQ(lane["waits_for"], 0);
    EXPECT_EQ(lane["rank"], 1);
    EXPECT_EQ(lane["alive"], true);
    ASSERT_EQ(lane["operations"].size(), 1U);
    EXPECT_EQ(lane["operations"][0]["state"], "running");
    EXPECT_THAT(status({}, *folder), testing::HasSubstr("rank 0"));
  }
  waiting.join();
  EXPECT_EQ(Json::parse(status({"--format", "json"}, *folder))["lanes"].size(), 0U);
  ASSERT_TRUE(os::remove_tree(*folder));
}

}  // namespace
}  // namespace imex::cli
