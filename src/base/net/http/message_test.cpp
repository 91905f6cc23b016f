#include "net/http/message.hpp"

#include <gmock/gmock.h>

namespace imex::net::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(HttpMessageTest, HeadersCompareWithoutRegardToCase) {
  Headers headers;
  headers.add("X-One", "1");
  headers.add("x-one", "2");
  EXPECT_EQ(headers.find("X-ONE"), "1");
  EXPECT_EQ(headers.count("x-One"), 2U);
  headers.set("X-ONE", "3");
  EXPECT_EQ(headers.count("x-one"), 1U);
  EXPECT_EQ(headers.find("x-one"), "3");
  EXPECT_EQ(headers.find("x-on"), std::nullopt);
}

TEST(HttpMessageTest, QueriesKeepOrderAndRepetition) {
  const auto query = Query::parse("status=Ready&query=a+b%2B&status=Error&flag&=x&&e=");
  ASSERT_TRUE(query) << query.error().to_string();
  EXPECT_THAT(query->items(),
              ElementsAre(Pair("status", "Ready"), Pair("query", "a b+"), Pair("status", "Error"),
                          Pair("flag", ""), Pair("", "x"), Pair("e", "")));
  EXPECT_THAT(query->all("status"), ElementsAre("Ready", "Error"));
  EXPECT_EQ(query->find("status"), "Ready");
  EXPECT_EQ(query->find("Status"), std::nullopt);
  EXPECT_THAT(query->all("none"), IsEmpty());
}

TEST(HttpMessageTest, MalformedQueriesAreRefused) {
  for (const char* raw : {"a=%", "a=%4", "a=%zz", "%=1", "a=%00", "a=%4"}) {
    EXPECT_FALSE(Query::parse(raw)) << raw;
  }
  std::string many;
  for (std::size_t i = 0; i < Query::kItemsMax; ++i) many += "a=1&";
  EXPECT_TRUE(Query::parse(many));
  EXPECT_FALSE(Query::parse(many + "a=1"));
}

TEST(HttpMessageTest, PercentThereAndBack) {
  std::string all;
  for (int c = 1; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_EQ(*percent_decoded(percent_encoded(all), false), all);
  EXPECT_EQ(percent_encoded("a b/ü~"), "a%20b%2F%C3%BC~");
  EXPECT_EQ(*percent_decoded("a+b%41", false), "a+bA");
}

TEST(HttpMessageTest, MethodsHaveTheirNames) {
  for (const char* name :
       {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}) {
    const auto method = method_from_name(name);
    ASSERT_TRUE(method) << name;
    EXPECT_EQ(method_name(*method), name);
  }
  EXPECT_FALSE(method_from_name("get"));
  EXPECT_FALSE(method_from_name("BREW"));
}

}  // namespace
}  // namespace imex::net::http
