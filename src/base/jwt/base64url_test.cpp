#include "base64url.hpp"

#include <gtest/gtest.h>

namespace imex::jwt {
namespace {

TEST(Base64UrlTest, ThereAndBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(*from_base64url(base64url(bytes)), bytes);
    bytes.push_back(static_cast<char>(i * 37));
  }
  EXPECT_EQ(base64url("\xfb\xff\xfe"), "-__-");
  EXPECT_EQ(base64url("fo"), "Zm8");
}

TEST(Base64UrlTest, OneTextPerValue) {
  for (const char* text : {"Zm9", "Zh", "Z", "Zm8=", "Zm+v", "Zm/v", "Z m8", "Zm8\n", "ZZZZZ"}) {
    EXPECT_FALSE(from_base64url(text)) << text;
  }
  EXPECT_TRUE(from_base64url("Zm8"));
  EXPECT_TRUE(from_base64url(""));
}

}  // namespace
}  // namespace imex::jwt
