// A benchmark whose ranks meet through a daemon, with the real programs.

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "bench/daemons.hpp"
#include "os/process.hpp"
#include "output.hpp"

namespace imex::cli {
namespace {

struct Outcome {
  int status = -1;
  std::string out;
};

/// Runs to its end; its output is shorter than a pipe is long.
Outcome run(std::vector<std::string> words) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const os::UniqueFd read_end(ends[0]);
  os::UniqueFd write_end(ends[1]);
  words.insert(words.begin(), {IMEX_PROGRAM, "bench"});
  words.insert(words.end(), {"--iterations", "3", "--seconds", "0.01", "--quiet"});
  auto child = os::Child::start(
      {.arguments = std::move(words), .environment = {}, .stdout_fd = write_end.get()});
  if (!child) return {};
  write_end.reset();
  Outcome outcome;
  outcome.status = child->wait(std::chrono::seconds(60)).value_or(-1);
  char buffer[4096];
  for (ssize_t bytes; (bytes = ::read(read_end.get(), buffer, sizeof buffer)) > 0;) {
    outcome.out.append(buffer, static_cast<std::size_t>(bytes));
  }
  return outcome;
}

TEST(BenchChannelTest, RanksMeetThroughTheDaemon) {
  auto daemons = bench::Daemons::prepare(IMEX_DAEMON, 1);
  ASSERT_TRUE(daemons) << daemons.error().to_string();
  const auto started = daemons->start_all();
  ASSERT_TRUE(started) << started.error().to_string();
  for (const char* buffers : {"private", "registered"}) {
    const Outcome outcome =
        run({"all-reduce", "--ranks", "3", "--sizes", "12,48KiB", "--buffers", buffers, "--channel",
             daemons->channel(0), "--format", "json", "--explain", "--check"});
    ASSERT_EQ(outcome.status, 0) << outcome.out;
    const Json results = Json::parse(outcome.out)["results"];
    ASSERT_EQ(results.size(), 2U);
    for (const Json& row : results) {
      EXPECT_EQ(row["checked"], true);
      EXPECT_EQ(row["explain"]["channel"], daemons->channel(0));
    }
  }
}

TEST(BenchChannelTest, AChannelThatIsNotThereIsAnErrorWithItsPath) {
  const Outcome outcome =
      run({"barrier", "--channel", "/nonexistent/channel0", "--format", "json"});
  EXPECT_EQ(outcome.status, 1);
  const Json error = Json::parse(outcome.out)["error"];
  EXPECT_EQ(error["code"], "not_found");
  EXPECT_THAT(error["message"].get<std::string>(), testing::HasSubstr("/nonexistent/channel0"));
}

}  // namespace
}  // namespace imex::cli
