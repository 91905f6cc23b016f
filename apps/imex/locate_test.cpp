#include "locate.hpp"

#include <gmock/gmock.h>

#include "os/file.hpp"
#include "os/socket.hpp"

namespace imex::cli {
namespace {

using testing::HasSubstr;

class LocateTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("locate");
    ASSERT_TRUE(made) << made.error().to_string();
    root_ = *made;
  }
  void TearDown() override { static_cast<void>(os::remove_tree(root_)); }
  /// A daemon's run directory: one with a command socket.
  void add_daemon(const std::string& directory) {
    ASSERT_TRUE(os::make_directories(directory));
    auto listener = os::listen_unix(directory + "/command.sock", 0600);
    ASSERT_TRUE(listener) << listener.error().to_string();
    sockets_.push_back(std::move(*listener));
  }

  std::string root_;
  std::vector<os::UniqueFd> sockets_;
};

TEST_F(LocateTest, TheOnlyDaemonIsFound) {
  add_daemon(root_ + "/imex/127.88.0.1");
  ASSERT_TRUE(os::make_directories(root_ + "/imex/left-over"));
  const auto found = locate_daemon({"", "", {root_ + "/imex", root_ + "/none"}});
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->command_socket(), root_ + "/imex/127.88.0.1/command.sock");
  EXPECT_EQ(found->control_socket(), root_ + "/imex/127.88.0.1/control.sock");
}

TEST_F(LocateTest, SeveralDaemonsAreListed) {
  add_daemon(root_ + "/a/127.88.0.1");
  add_daemon(root_ + "/b/127.88.0.2");
  const auto found = locate_daemon({"", "", {root_ + "/a", root_ + "/b"}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(found.error().message,
              HasSubstr(root_ + "/a/127.88.0.1, " + root_ + "/b/127.88.0.2"));
  EXPECT_THAT(found.error().hint, HasSubstr("--state-dir"));
}

TEST_F(LocateTest, NoDaemonSaysWhereItLooked) {
  const auto found = locate_daemon({"", "", {root_ + "/imex"}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr(root_ + "/imex"));
}

TEST_F(LocateTest, OptionWinsOverVariableAndBothOverSearching) {
  add_daemon(root_ + "/imex/127.88.0.1");
  const std::vector<std::string> roots{root_ + "/imex"};
  EXPECT_EQ(locate_daemon({"/s/option", "/s/variable", roots})->run_directory, "/s/option/run");
  EXPECT_EQ(locate_daemon({"", "/s/variable", roots})->run_directory, "/s/variable/run");
}

TEST_F(LocateTest, ARunDirectoryItselfIsAcceptedAsStateDirectory) {
  add_daemon(root_ + "/127.88.0.1");
  EXPECT_EQ(locate_daemon({root_ + "/127.88.0.1", "", {}})->run_directory, root_ + "/127.88.0.1");
}

}  // namespace
}  // namespace imex::cli
