#include "unicode.hpp"

#include <gtest/gtest.h>

#include "byte_alphabet.hpp"
#include "utf8.hpp"

namespace imex::inference {
namespace {

TEST(Utf8Test, EveryCodePointSurvivesAndSurrogatesAreNone) {
  for (char32_t code = 0; code < 0x11'0000; code += code < 0x1'0000 ? 1 : 37) {
    std::string text;
    append_utf8(text, code);
    const Character character = first_character(text + "x");
    if (code >= 0xd800 && code < 0xe000) {
      ASSERT_EQ(character.bytes, 0U) << static_cast<unsigned>(code);
    } else {
      ASSERT_EQ(character.code, code);
      ASSERT_EQ(character.bytes, text.size());
    }
  }
}

TEST(Utf8Test, OverlongTruncatedAndTooLargeFormsAreInvalid) {
  for (const std::string_view wrong :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\x80", "\xff", "\xe2\x82"}) {
    EXPECT_EQ(first_character(wrong).bytes, 0U);
    EXPECT_EQ(find_invalid_utf8(std::string("ab").append(wrong)), 2U);
  }
  EXPECT_EQ(find_invalid_utf8("aé漢🙂"), std::string_view::npos);
}

std::string drained(std::string pending, std::string& rest) {
  std::string out;
  drain_characters(pending, out);
  rest = pending;
  return out;
}

// The examples of Unicode's chapter 3.9 on maximal subparts.
TEST(Utf8Test, DrainingKeepsAStartAndReplacesWhatCanBecomeNothing) {
  std::string rest;
  EXPECT_EQ(drained("a\xf0\x9f\x99", rest), "a");
  EXPECT_EQ(rest, "\xf0\x9f\x99");
  EXPECT_EQ(drained("\xf0\x80\x80\x41", rest), "\ufffd\ufffd\ufffdA");
  EXPECT_EQ(drained("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", rest), "\ufffd\ufffd\ufffd\ufffdA");
  EXPECT_EQ(rest, "");
}

TEST(UnicodeTest, ClassesAreThoseOfTheStandard) {
  EXPECT_EQ(class_of(U'Z'), CharClass::kUpper);
  EXPECT_EQ(class_of(U'ǅ'), CharClass::kUpper);
  EXPECT_EQ(class_of(U'ß'), CharClass::kLower);
  EXPECT_EQ(class_of(U'ʰ'), CharClass::kOtherLetter);
  EXPECT_EQ(class_of(U'語'), CharClass::kOtherLetter);
  EXPECT_EQ(class_of(U'\u0301'), CharClass::kMark);
  EXPECT_EQ(class_of(U'½'), CharClass::kNumber);
  EXPECT_EQ(class_of(U'Ⅷ'), CharClass::kNumber);
  EXPECT_EQ(class_of(U'\u3000'), CharClass::kSpace);
  EXPECT_EQ(class_of(U'\u200b'), CharClass::kOther);
  EXPECT_EQ(class_of(U'\x1c'), CharClass::kOther);
  EXPECT_EQ(class_of(0x10ffff), CharClass::kOther);
}

TEST(UnicodeTest, NfcComposesOrdersAndExcludes) {
  EXPECT_EQ(to_nfc("e\u0301"), "é");
  EXPECT_EQ(to_nfc("a\u0323\u0302"), "ậ");
  EXPECT_EQ(to_nfc("a\u0302\u0323"), "ậ");  // marks are put in order first
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "한");
  EXPECT_EQ(to_nfc("\u212b"), "Å");               // a character that is another
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093c");    // excluded from composition
  EXPECT_EQ(to_nfc("a\u0301\u0301"), "á\u0301");  // blocked by the same class
  EXPECT_EQ(to_nfc("plain"), "plain");
}

TEST(ByteAlphabetTest, SpellsAllBytes) {
  EXPECT_EQ(from_byte_alphabet("\u0120the\u010a"), " the\n");
  EXPECT_EQ(from_byte_alphabet("\u00e2\u0124\u00ac"), "\xe2\x82\xac");
  EXPECT_EQ(from_byte_alphabet("a b"), std::nullopt);
  EXPECT_EQ(parse_byte_token("<0x0A>"), static_cast<unsigned char>(10));
  EXPECT_EQ(parse_byte_token("<0x0G>"), std::nullopt);
}

}  // namespace
}  // namespace imex::inference
