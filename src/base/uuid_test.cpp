#include "base/uuid.hpp"

#include <cctype>
#include <string>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace imex {
namespace {

constexpr std::string_view kText = "00112233-4455-6677-8899-aabbccddeeff";

Uuid some_uuid() {
  Uuid id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<std::byte>(i * 0x11);
  return id;
}

TEST(UuidTest, TextIsInOrderOfTheBytes) {
  EXPECT_EQ(some_uuid().to_string(), kText);
  EXPECT_EQ(Uuid{}.to_string(), "00000000-0000-0000-0000-000000000000");
}

TEST(UuidTest, BothFormsAndBothCasesAreRead) {
  for (const std::string_view text :
       {kText, std::string_view("00112233-4455-6677-8899-AABBCCDDEEFF"),
        std::string_view("00112233445566778899aAbBcCdDeEfF")}) {
    const auto id = Uuid::parse(text);
    ASSERT_TRUE(id) << text;
    EXPECT_EQ(*id, some_uuid());
  }
}

TEST(UuidTest, MalformedTextIsRefused) {
  for (const std::string_view text :
       {"", "0", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0",
        "00112233445566778899aabbccddeeffff", "0011223344556677-8899-aabbccddeeff",
        "001122334-455-6677-8899-aabbccddeeff", "00112233_4455_6677_8899_aabbccddeeff",
        "g0112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeef ",
        " 0112233-4455-6677-8899-aabbccddeeff", "----------------",
        "--------------------------------", "00112233445566778899aabbccddee-f",
        "{0112233-4455-6677-8899-aabbccddeef}"}) {
    const auto id = Uuid::parse(text);
    ASSERT_FALSE(id) << text;
    EXPECT_EQ(id.error().code, Errc::kInvalidArgument);
    EXPECT_NE(id.error().message.find("no UUID"), std::string::npos) << id.error().message;
  }
}

Uuid uuid_of(const std::vector<std::uint8_t>& bytes) {
  Uuid id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<std::byte>(bytes[i]);
  return id;
}

RC_GTEST_PROP(UuidTest, EveryUuidIsReadBackFromItsText, ()) {
  const Uuid id = uuid_of(
      *rc::gen::container<std::vector<std::uint8_t>>(16, rc::gen::arbitrary<std::uint8_t>()));
  std::string text = id.to_string();
  RC_ASSERT(Uuid::parse(text).value() == id);
  std::erase(text, '-');
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  RC_ASSERT(Uuid::parse(text).value() == id);
}

// Any one character replaced by one that does not belong there is noticed.
RC_GTEST_PROP(UuidTest, AnyForeignCharacterIsNoticed, ()) {
  std::string text(kText);
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  const char c = *rc::gen::suchThat<char>([](char candidate) {
    return std::isxdigit(static_cast<unsigned char>(candidate)) == 0 && candidate != '-';
  });
  text[at] = c;
  RC_ASSERT(!Uuid::parse(text));
}

TEST(UuidTest, OrderIsThatOfTheTextAndNilIsLeast) {
  Uuid high = some_uuid();
  high.bytes[0] = std::byte{0xf0};
  EXPECT_LT(some_uuid(), high);
  EXPECT_LT(Uuid{}, some_uuid());
  EXPECT_TRUE(Uuid{}.is_nil());
  EXPECT_FALSE(some_uuid().is_nil());
}

TEST(UuidTest, HashTellsEveryByteApart) {
  std::unordered_set<std::size_t> hashes;
  for (std::size_t i = 0; i < 16; ++i) {
    Uuid id;
    id.bytes[i] = std::byte{1};
    hashes.insert(std::hash<Uuid>{}(id));
  }
  EXPECT_EQ(hashes.size(), 16U);
}

}  // namespace
}  // namespace imex
