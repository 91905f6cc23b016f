#include "base/text.hpp"

#include <gtest/gtest.h>

namespace imex {
namespace {

TEST(PrintableTest, WhatCannotHarmStaysAsItIs) {
  for (const std::string_view text : {"", "a b~", "model.layers.0", "Grüße, 世界 🙂", "C:\\x"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(PrintableTest, WhatSteersATerminalIsSpelledOut) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("x\nimex: done\t\r"), "x\\nimex: done\\t\\x0d");
  EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // CSI as one character
  EXPECT_EQ(printable("gnp.\u202egpj"), "gnp.\\u202egpj");
  EXPECT_EQ(printable("\u2028\ufeff"), "\\u2028\\ufeff");
}

TEST(PrintableTest, BytesThatAreNoTextAreSpelledOut) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xe4\xb8"), "\\xe4\\xb8");  // cut short
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");  // overlong ESC [
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace imex
