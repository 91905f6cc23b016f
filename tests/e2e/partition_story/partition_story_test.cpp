// docs/guide/06-partition-a-rack.md, run as it stands: its blocks are one script, which a shell
// executes against a real controller and a simulated rack. The test supervises the controller, as
// systemd would: when the story kills it, it is started again.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "bench/control/control_plane.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::test {
namespace {

using std::chrono::steady_clock;

/// The lines of all ```bash blocks.
std::string script_of_guide() {
  std::ifstream guide(IMEX_GUIDE);
  std::string script, line;
  bool inside = false;
  while (std::getline(guide, line)) {
    if (line.starts_with("```")) {
      inside = line == "```bash";
      continue;
    }
    if (inside) script += line + "\n";
  }
  return script;
}

std::string text_of(const std::string& path) { return os::read_file(path).value_or("(nothing)"); }

TEST(PartitionStoryTest, TheGuideWorksAsItStands) {
  if (std::system("command -v jq >/dev/null") != 0) GTEST_SKIP() << "the story needs jq";
  bench::ControlPlaneOptions options;
  options.rack = IMEX_RACK;
  options.controller = IMEX_CONTROLLER;
  options.topology = "custom:trays=4,gpus=4,switches=1,chips=2";
  auto plane = bench::ControlPlane::start(options);
  ASSERT_TRUE(plane) << plane.error().to_string();

  const std::string script = script_of_guide();
  ASSERT_NE(script.find("imex partition create"), std::string::npos) << "no blocks in the guide";
  const std::string script_file = plane->directory() + "/story.sh";
  std::ofstream(script_file) << "set -euo pipefail -x\n" << script;
  const std::string said_file = plane->directory() + "/story.out";
  auto said = os::open_for_append(said_file, true);
  ASSERT_TRUE(said);

  os::Child::Options shell;
  shell.arguments = {"/bin/bash", script_file};
  shell.stdout_fd = shell.stderr_fd = said->get();
  const std::string programs = std::filesystem::path(IMEX_PROGRAM).parent_path();
  shell.environment = {{"PATH", programs + ":" + std::getenv("PATH")},
                       {"IMEX_CONTROLLER_URL", plane->url()},
                       {"IMEX_ORG", bench::ControlPlane::kOrg},
                       {"IMEX_TOKEN_FILE", plane->token_file()},
                       {"IMEX_RACK_CONTROL", plane->rack_control()},
                       {"CONTROLLER_PID", std::to_string(plane->controller_pid())}};
  auto child = os::Child::start(shell);
  ASSERT_TRUE(child) << child.error().to_string();

  int revivals = 0;
  std::optional<int> status;
  const auto deadline = steady_clock::now() + std::chrono::seconds(240);
  while (!status && steady_clock::now() < deadline) {
    status = child->wait(std::chrono::milliseconds(50));
    if (!plane->controller_runs()) {
      ++revivals;
      const auto revived = plane->revive_controller();
      ASSERT_TRUE(revived) << revived.error().to_string();
    }
  }
  ASSERT_TRUE(status) << "the story did not end: " << text_of(said_file);
  EXPECT_EQ(*status, 0) << text_of(said_file);
  EXPECT_EQ(revivals, 1);
}

}  // namespace
}  // namespace imex::test
