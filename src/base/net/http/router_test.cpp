#include "net/http/router.hpp"

#include <gmock/gmock.h>

namespace imex::net::http {
namespace {

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (const char* pattern :
         {"/", "/instance", "/instance/{id}", "/instance/type", "/instance/type/{id}",
          "/instance/{id}/nvlink-interface", "/files/{path...}", "/files/index"}) {
      router_.add(Method::kGet, pattern, [](const Request&) { return Response{}; });
    }
    router_.add(Method::kPost, "/instance/batch", [](const Request&) { return Response{}; });
    router_.add(Method::kDelete, "/instance/{key}", [](const Request&) { return Response{}; });
  }
  /// "pattern|name=value", "404", "405 allow" or "400".
  std::string find(Method method, std::string_view path) {
    auto found = router_.find(method, path);
    if (std::holds_alternative<Router::NoSuchPath>(found)) return "404";
    if (std::holds_alternative<Router::BadPath>(found)) return "400";
    if (const auto* other = std::get_if<Router::NoSuchMethod>(&found)) return "405 " + other->allow;
    const auto& match = std::get<Router::Match>(found);
    std::string text = match.route->pattern;
    for (const auto& [name, value] : match.parameters) {
      text += "|" + std::string(name) + "=" + value;
    }
    return text;
  }
  Router router_;
};

TEST_F(RouterTest, LiteralsWinOverNames) {
  EXPECT_EQ(find(Method::kGet, "/"), "/");
  EXPECT_EQ(find(Method::kGet, "/instance"), "/instance");
  EXPECT_EQ(find(Method::kGet, "/instance/type"), "/instance/type");
  EXPECT_EQ(find(Method::kGet, "/instance/7"), "/instance/{id}|id=7");
  EXPECT_EQ(find(Method::kGet, "/instance/type/7"), "/instance/type/{id}|id=7");
  EXPECT_EQ(find(Method::kGet, "/instance/7/nvlink-interface"),
            "/instance/{id}/nvlink-interface|id=7");
}

/// A literal that leads nowhere does not hide the name beside it.
TEST_F(RouterTest, GoesBackFromALiteralThatDoesNotFit) {
  EXPECT_EQ(find(Method::kGet, "/instance/type/nvlink-interface"),
            "/instance/type/{id}|id=nvlink-interface");
  EXPECT_EQ(find(Method::kGet, "/instance/batch"), "/instance/{id}|id=batch");
  EXPECT_EQ(find(Method::kGet, "/instance/batch/nvlink-interface"),
            "/instance/{id}/nvlink-interface|id=batch");
  EXPECT_EQ(find(Method::kDelete, "/instance/type"), "/instance/{key}|key=type");
}

TEST_F(RouterTest, TheRestIsOneParameter) {
  EXPECT_EQ(find(Method::kGet, "/files/a/b%20c/d"), "/files/{path...}|path=a/b c/d");
  EXPECT_EQ(find(Method::kGet, "/files/index"), "/files/index");
  EXPECT_EQ(find(Method::kGet, "/files/index/x"), "/files/{path...}|path=index/x");
  EXPECT_EQ(find(Method::kGet, "/files"), "404");
  EXPECT_EQ(find(Method::kGet, "/files/"), "404");
}

TEST_F(RouterTest, ParametersAreDecodedAfterTheCut) {
  EXPECT_EQ(find(Method::kGet, "/instance/a%2Fb"), "/instance/{id}|id=a/b");
  EXPECT_EQ(find(Method::kGet, "/instance/a+b"), "/instance/{id}|id=a+b");
  EXPECT_EQ(find(Method::kGet, "/instance/%"), "400");
  EXPECT_EQ(find(Method::kGet, "/instance/%00"), "400");
}

TEST_F(RouterTest, WhatIsMissingIsTold) {
  EXPECT_EQ(find(Method::kGet, "/instance/"), "404");
  EXPECT_EQ(find(Method::kGet, "//instance"), "404");
  EXPECT_EQ(find(Method::kGet, "/Instance"), "404");
  EXPECT_EQ(find(Method::kGet, "instance"), "400");
  EXPECT_EQ(find(Method::kPost, "/instance"), "405 GET, HEAD");
  // Of all patterns that fit the path.
  EXPECT_EQ(find(Method::kPatch, "/instance/batch"), "405 GET, HEAD, POST, DELETE");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "/a";
  EXPECT_EQ(find(Method::kGet, deep), "404");
}

TEST_F(RouterTest, HeadIsAnsweredByGet) {
  EXPECT_EQ(find(Method::kHead, "/instance"), "/instance");
  EXPECT_EQ(find(Method::kHead, "/none"), "404");
}

}  // namespace
}  // namespace imex::net::http
