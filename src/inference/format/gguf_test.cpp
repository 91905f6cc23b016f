#include "inference/format/gguf.hpp"

#include <cstring>
#include <functional>
#include <string>

#include <gmock/gmock.h>

#include "inference/testing/allocation.hpp"
#include "inference/testing/data.hpp"
#include "inference/testing/gguf_writer.hpp"
#include "os/file.hpp"

namespace imex::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Writer = testing::GgufWriter;
constexpr std::uint32_t kF32 = 0;

Error refused(const Writer& writer) {
  auto file = GgufFile::parse(writer.bytes());
  EXPECT_FALSE(file) << "was read";
  return file ? Error{} : file.error();
}

TEST(GgufTest, ReadsEveryKindOfValueOfAnIndependentWriter) {
  const auto file = GgufFile::open(testing::test_data("gguf/metadata.gguf"));
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(*file->integer("u8"), 200U);
  EXPECT_EQ(std::get<std::int64_t>(*file->find("i8")), -100);
  EXPECT_EQ(*file->integer("u16"), 60000U);
  EXPECT_EQ(std::get<std::int64_t>(*file->find("i16")), -30000);
  EXPECT_EQ(*file->integer("u32"), 4000000000U);
  EXPECT_EQ(std::get<std::int64_t>(*file->find("i32")), -2000000000);
  EXPECT_EQ(*file->integer("u64"), UINT64_MAX);
  EXPECT_EQ(std::get<std::int64_t>(*file->find("i64")), INT64_MIN);
  EXPECT_EQ(*file->number("f32"), double{1e-5F});
  EXPECT_EQ(*file->number("f64"), 0.1);
  EXPECT_TRUE(*file->flag("yes"));
  EXPECT_FALSE(*file->flag("no"));
  EXPECT_EQ(*file->text("text"), "Grüße, 世界");
  EXPECT_THAT(*file->texts("texts"), ElementsAre("a", "", "▁b"));
  EXPECT_THAT(*file->integers("integers"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*file->floats("floats"), ElementsAre(0.5F, -1.5F));
}

TEST(GgufTest, ShapesAreSlowestFirstAndDataFollowsTheAlignment) {
  const auto file = GgufFile::open(testing::test_data("gguf/metadata.gguf"));
  ASSERT_TRUE(file) << file.error().to_string();
  const Tensor* const deep = file->find_tensor("deep");
  ASSERT_NE(deep, nullptr);
  EXPECT_THAT(deep->shape, ElementsAre(2, 3, 4));
  float last = 0;
  std::memcpy(&last, deep->bytes.data() + deep->bytes.size() - sizeof last, sizeof last);
  EXPECT_EQ(last, 23.0F);
  EXPECT_EQ(file->find_tensor("none"), nullptr);
}

TEST(GgufTest, AValueOfAnotherKindIsNamed) {
  const auto file = GgufFile::open(testing::test_data("gguf/metadata.gguf"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->integer("none").error().code, Errc::kNotFound);
  EXPECT_THAT(file->integer("i8").error().message, HasSubstr("'i8' is not a whole number"));
  EXPECT_EQ(file->text("u8").error().code, Errc::kDataLoss);
  EXPECT_EQ(file->texts("integers").error().code, Errc::kDataLoss);
  EXPECT_EQ(file->integers("floats").error().code, Errc::kDataLoss);
  EXPECT_EQ(file->floats("integers").error().code, Errc::kDataLoss);
}

TEST(GgufTest, EveryTruncationIsRefused) {
  const std::string whole = *os::read_file(testing::test_data("gguf/metadata.gguf"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = GgufFile::parse(std::as_bytes(std::span(whole)).first(size));
    // The last tensor's padding is not part of it.
    ASSERT_TRUE(!file || size + 64 > whole.size()) << size;
  }
}

TEST(GgufTest, RefusesWhatIsNoGgufOfThisVersion) {
  EXPECT_THAT(refused(Writer().put(std::uint64_t{0}).put(std::uint64_t{0})).message,
              HasSubstr("wrong magic"));
  EXPECT_THAT(refused(Writer().header(0, 0, 2)).message, HasSubstr("version 2"));
  EXPECT_THAT(refused(Writer().header(0, 0, 3U << 24U)).message, HasSubstr("big-endian"));
}

TEST(GgufTest, CountsThatCannotFitAreRefusedBeforeAnythingIsReserved) {
  EXPECT_THAT(refused(Writer().header(UINT64_MAX, 0)).message, HasSubstr("do not fit"));
  EXPECT_THAT(refused(Writer().header(0, UINT64_MAX)).message, HasSubstr("do not fit"));
  EXPECT_THAT(refused(Writer().header(0, 1).text("a").put(9U).put(0U).put(UINT64_MAX)).message,
              HasSubstr("ends inside an array"));
  EXPECT_THAT(refused(Writer().header(0, 1).text("a").put(8U).put(UINT64_MAX)).message,
              HasSubstr("ends inside a string"));
}

// Each tensor takes 24 bytes of the file, and more in memory.
TEST(GgufTest, CountsThatLieMakeNoRoomForWhatIsNotThere) {
  std::vector<std::byte> bytes = Writer().header(std::uint64_t{1} << 21U, 0).bytes();
  bytes.resize(std::size_t{64} << 20U);
  const testing::LargestAllocation watch;
  EXPECT_FALSE(GgufFile::parse(bytes));
  EXPECT_LT(watch.bytes(), 65'536U);
}

TEST(GgufTest, ArraysHaveADepthThatIsBounded) {
  const auto nested = [](unsigned depth) {
    Writer writer;
    writer.header(0, 1).text("a").put(9U);
    for (unsigned i = 1; i < depth; ++i) writer.put(9U).put(std::uint64_t{1});
    return writer.put(0U).put(std::uint64_t{1}).put(std::uint8_t{7});
  };
  EXPECT_TRUE(GgufFile::parse(nested(4).bytes()));
  EXPECT_THAT(refused(nested(5)).message, HasSubstr("deeper than 4"));
}

TEST(GgufTest, NamesAndKeysAppearOnce) {
  EXPECT_THAT(
      refused(Writer().header(0, 2).text("a").put(0U).put('x').text("a").put(0U).put('x')).message,
      HasSubstr("'a' appears twice"));
  EXPECT_THAT(
      refused(Writer().header(2, 0).tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).data(36))
          .message,
      HasSubstr("'t' appears twice"));
}

TEST(GgufTest, TensorsLieInTheDataAlignedAndApart) {
  const auto two = [](std::uint64_t offset, std::size_t data) {
    return Writer()
        .header(2, 0)
        .tensor("a", {16}, kF32, 0)
        .tensor("b", {2, 3}, kF32, offset)
        .data(data);
  };
  EXPECT_TRUE(GgufFile::parse(two(64, 88).bytes()));
  EXPECT_THAT(refused(two(64, 87)).message, HasSubstr("'b' takes 24 bytes at offset 64"));
  EXPECT_THAT(refused(two(80, 200)).message, HasSubstr("not a multiple of 32"));
  EXPECT_THAT(refused(two(32, 200)).message, HasSubstr("overlap"));
  EXPECT_THAT(refused(two(UINT64_MAX - 31, 200)).message, HasSubstr("but the data has"));
}

TEST(GgufTest, RefusesTensorsThatAreNoneOrUnknown) {
  const auto one = [](std::string_view name, const std::vector<std::uint64_t>& sizes,
                      std::uint32_t type) {
    return Writer().header(1, 0).tensor(name, sizes, type, 0).data(1000);
  };
  EXPECT_THAT(refused(one("t", {256}, 10)).message, HasSubstr("type 10 (Q2_K)"));
  EXPECT_THAT(refused(one("t", {256}, 77)).message, HasSubstr("type 77 (unknown)"));
  EXPECT_THAT(refused(one("t", {100}, 12)).message, HasSubstr("not whole blocks of 256"));
  EXPECT_THAT(refused(one("t", {1, 1, 1, 1, 1}, kF32)).message, HasSubstr("5 dimensions"));
  EXPECT_THAT(refused(one("", {1}, kF32)).message, HasSubstr("0 bytes; 1 to 64"));
  EXPECT_THAT(refused(one(std::string(65, 'n'), {1}, kF32)).message, HasSubstr("65 bytes"));
  EXPECT_THAT(refused(one("t", {std::uint64_t{1} << 62U, 4}, kF32)).message,
              HasSubstr("larger than any file"));
}

TEST(GgufTest, AlignmentIsAPowerOfTwo) {
  const auto aligned = [](std::uint32_t alignment) {
    return Writer().header(0, 1).text("general.alignment").put(4U).put(alignment);
  };
  EXPECT_TRUE(GgufFile::parse(aligned(8).bytes()));
  for (const std::uint32_t wrong : {0U, 1U, 48U, 0x8000'0000U}) {
    EXPECT_THAT(refused(aligned(wrong)).message, HasSubstr("power of two")) << wrong;
  }
}

}  // namespace
}  // namespace imex::inference
