#include "controller_access.hpp"

#include <fstream>

#include <gmock/gmock.h>

#include "os/file.hpp"

namespace imex::cli {
namespace {

using testing::HasSubstr;

class ControllerAccessTest : public testing::Test {
 protected:
  ControllerAccessTest() : directory_(*os::make_temporary_directory("access")) {}
  ~ControllerAccessTest() override { EXPECT_TRUE(os::remove_tree(directory_)); }

  [[nodiscard]] std::string stack() const { return directory_ + "/stack.json"; }
  void write_stack(const std::string& text) const { std::ofstream(stack()) << text; }

  std::string directory_;
};

constexpr const char* kStack =
    R"({"controller":{"url":"http://127.0.0.1:8388","org":"imex","token_file":"/t","site_id":"s"},)"
    R"("rack":{"control":"/run/rack.sock"}})";

TEST_F(ControllerAccessTest, TheStackIsTakenWhereNothingElseIsSaid) {
  write_stack(kStack);
  const auto access = locate_controller({.given = {}, .variables = {}, .stack_file = stack()});
  ASSERT_TRUE(access) << access.error().to_string();
  EXPECT_EQ(access->url, "http://127.0.0.1:8388");
  EXPECT_EQ(access->org, "imex");
  EXPECT_EQ(access->token_file, "/t");
  EXPECT_EQ(access->site, "s");
  EXPECT_EQ(*locate_rack("", "", stack()), "/run/rack.sock");
}

TEST_F(ControllerAccessTest, AnotherControllerIsNotGivenTheTokenOfThisOne) {
  write_stack(kStack);
  ControllerOptions given;
  given.url = "http://elsewhere:1";
  const auto access = locate_controller({.given = given, .variables = {}, .stack_file = stack()});
  ASSERT_TRUE(access);
  EXPECT_EQ(access->url, "http://elsewhere:1");
  EXPECT_EQ(access->token_file, "");
  EXPECT_EQ(access->site, "");
}

TEST_F(ControllerAccessTest, OptionsComeBeforeVariables) {
  ControllerOptions given, variables;
  given.url = "http://option:1";
  variables.url = "http://variable:1";
  variables.org = "org-of-variable";
  const auto access =
      locate_controller({.given = given, .variables = variables, .stack_file = stack()});
  ASSERT_TRUE(access);
  EXPECT_EQ(access->url, "http://option:1");
  EXPECT_EQ(access->org, "org-of-variable");
  EXPECT_EQ(*locate_rack("/option", "/variable", stack()), "/option");
  EXPECT_EQ(*locate_rack("", "/variable", stack()), "/variable");
}

TEST_F(ControllerAccessTest, NothingKnownSaysWhereItLooked) {
  const auto access = locate_controller({.given = {}, .variables = {}, .stack_file = stack()});
  ASSERT_FALSE(access);
  EXPECT_EQ(access.error().code, Errc::kNotFound);
  EXPECT_THAT(access.error().message, HasSubstr(stack()));
  EXPECT_THAT(access.error().hint, HasSubstr("imex up"));
  EXPECT_EQ(locate_rack("", "", stack()).error().code, Errc::kNotFound);
}

TEST_F(ControllerAccessTest, AControllerWithoutAnOrgIsNotEnough) {
  ControllerOptions given;
  given.url = "http://option:1";
  const auto access = locate_controller({.given = given, .variables = {}, .stack_file = stack()});
  ASSERT_FALSE(access);
  EXPECT_EQ(access.error().code, Errc::kInvalidArgument);
}

TEST_F(ControllerAccessTest, ADamagedStackFileIsAnError) {
  for (const char* text : {"", "[", R"({"controller":{"url":7}})"}) {
    write_stack(text);
    const auto access = locate_controller({.given = {}, .variables = {}, .stack_file = stack()});
    ASSERT_FALSE(access) << text;
    EXPECT_THAT(access.error().message, HasSubstr(stack())) << text;
  }
}

}  // namespace
}  // namespace imex::cli
