#include "output.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include <gmock/gmock.h>

namespace imex::cli {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCellAndNumbersStandToTheRight) {
  Table table({"NODE", "HOST", "US"});
  table.add({"0", "10.0.0.11", "1.5"});
  table.add({"12", "a", "220"});
  EXPECT_EQ(table.render(),
            "NODE  HOST        US\n"
            "   0  10.0.0.11  1.5\n"
            "  12  a          220\n");
}

TEST(TableTest, AddressesAndEmptyCellsAreNoNumbers) {
  Table table({"ADDRESS", "NEXT"});
  table.add({"10.0.0.11", ""});
  table.add({"1.1.1.1", "x"});
  EXPECT_EQ(table.render(), "ADDRESS    NEXT\n10.0.0.11\n1.1.1.1    x\n");
}

TEST(TableTest, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(display_width("µs"), 2U);
  Table table({"A", "B"});
  table.add({"µµµ", "x"});
  table.add({"aaaa", "y"});
  EXPECT_EQ(table.render(), "A     B\nµµµ   x\naaaa  y\n");
}

TEST(TableTest, ShortRowsAreFilledUp) {
  Table table({"A", "B"});
  table.add({"x"});
  EXPECT_EQ(table.render(), "A  B\nx\n");
}

TEST(TableTest, ControlCharactersOfCellsAreShownNotObeyed) {
  Table table({"NAME", "N"});
  table.add({"a\x1b[2J\nb", "1"});
  EXPECT_EQ(table.render(), "NAME         N\na\\x1b[2J\\nb  1\n");
}

TEST(RenderListTest, TheThreeFormatsCarryTheSameRows) {
  Table table({"CHANNEL"});
  table.add({"3"});
  const std::vector<Json> rows{{{"channel", 3}}, {{"channel", 4}}};
  EXPECT_EQ(render_list(Format::kTable, "channels", rows, table), "CHANNEL\n      3\n");
  EXPECT_EQ(Json::parse(render_list(Format::kJson, "channels", rows, table)),
            Json({{"channels", rows}}));
  EXPECT_EQ(render_list(Format::kJsonLines, "channels", rows, table),
            "{\"channel\":3}\n{\"channel\":4}\n");
}

TEST(RenderListTest, BytesThatAreNoTextDoNotStopTheOutput) {
  const std::vector<Json> rows{{{"host", "\xff\xfe"}}};
  EXPECT_THAT(render_list(Format::kJsonLines, "nodes", rows, Table({"HOST"})), HasSubstr("host"));
}

TEST(ErrorTest, JsonCarriesCodeMessageAndHint) {
  const Json json = error_json({Errc::kNotFound, "no daemon", "start imexd"});
  EXPECT_EQ(json.dump(),
            R"({"error":{"code":"not_found","message":"no daemon","hint":"start imexd"}})");
}

TEST(ErrorTest, WhatANameWouldDoToATerminalIsSpelledOut) {
  testing::internal::CaptureStderr();
  report({Errc::kDataLoss, "tensor '\x1b]0;x\a\nimex: fine' is bad", ""}, Format::kTable);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "imex: tensor '\\x1b]0;x\\x07\\nimex: fine' is bad (data_loss)\n");
}

TEST(ErrorTest, WrongUseAndFailureHaveTheirOwnExitStatus) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(report({Errc::kInvalidArgument, "no such option", ""}, Format::kTable), 2);
  EXPECT_EQ(report({Errc::kUnavailable, "daemon away", "start it"}, Format::kTable), 1);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("imex: daemon away (unavailable); start it\n"));
}

TEST(ProgressTest, BarShowsShareCountAndEstimate) {
  EXPECT_EQ(Progress::bar(0, 4, "start", 0s), "[                        ] 0/4 start");
  EXPECT_EQ(Progress::bar(2, 4, "signal", 3s),
            "[############            ] 2/4 signal, about 3 s left");
  EXPECT_EQ(Progress::bar(4, 4, "done", 3s), "[########################] 4/4 done");
}

TEST(ProgressTest, OffATerminalEachStepIsALineAndQuietIsSilent) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ASSERT_TRUE(file);
  {
    Progress progress(2, false, file.get());
    progress.step("first");
    progress.step("second");
    Progress silent(1, true, file.get());
    silent.step("unseen");
  }
  ASSERT_EQ(std::fseek(file.get(), 0, SEEK_SET), 0);
  std::string text(64, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  EXPECT_EQ(text, "1/2 first\n2/2 second\n");
}

}  // namespace
}  // namespace imex::cli
