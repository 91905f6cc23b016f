#include "base/bytes.hpp"

#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace imex {
namespace {

std::vector<std::byte> bytes_from(std::initializer_list<unsigned> values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(BytesTest, FieldsAreLittleEndianAndPacked) {
  std::vector<std::byte> out(16, std::byte{0xff});
  ByteWriter writer(out);
  writer.put(std::uint8_t{0x01}).put(std::uint16_t{0x0302}).put(std::uint32_t{0x07060504}).skip(2);
  writer.put(std::int32_t{-2}).put_bytes(bytes_from({0xaa, 0xbb})).put_bytes({});
  EXPECT_EQ(writer.position(), 15U);
  EXPECT_EQ(out, bytes_from({1, 2, 3, 4, 5, 6, 7, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xaa, 0xbb, 0xff}));
}

TEST(BytesTest, AViewThatGoesPastTheEndIsEmptyAndEndsTheReading) {
  const std::vector<std::byte> in = bytes_from({1, 2, 3, 4});
  ByteReader reader(in);
  EXPECT_EQ(reader.view(3).data(), in.data());
  EXPECT_EQ(reader.position(), 3U);
  EXPECT_TRUE(reader.view(UINT64_MAX).empty());
  EXPECT_FALSE(reader.ok());
  EXPECT_TRUE(reader.view(1).empty());
  EXPECT_EQ(reader.position(), 3U);
}

using Record = std::tuple<std::uint8_t, std::int16_t, std::uint32_t, std::int64_t, std::uint64_t>;
constexpr std::size_t kRecordBytes = 1 + 2 + 4 + 8 + 8;

std::vector<std::byte> write(const Record& record) {
  std::vector<std::byte> out(kRecordBytes);
  ByteWriter writer(out);
  std::apply([&](auto... fields) { (writer.put(fields), ...); }, record);
  return out;
}

Record read(ByteReader& reader) {
  Record record;
  std::apply(
      [&](auto&... fields) { ((fields = reader.get<std::decay_t<decltype(fields)>>()), ...); },
      record);
  return record;
}

RC_GTEST_PROP(BytesTest, WhatIsWrittenIsReadBack, (const Record& record)) {
  const std::vector<std::byte> bytes = write(record);
  ByteReader reader(bytes);
  RC_ASSERT(read(reader) == record);
  RC_ASSERT(reader.ok());
  RC_ASSERT(reader.remaining() == 0U);
}

// Cut anywhere: the reader says so, gives zeros from there on and never reads past the end (the
// bytes are copied to an exact allocation, so that AddressSanitizer would see it).
RC_GTEST_PROP(BytesTest, TruncatedBytesAreNoticed, (const Record& record)) {
  const auto size = *rc::gen::inRange<std::size_t>(0, kRecordBytes);
  const std::vector<std::byte> whole = write(record);
  const std::vector<std::byte> cut(whole.begin(),
                                   whole.begin() + static_cast<std::ptrdiff_t>(size));
  ByteReader reader(cut);
  const Record seen = read(reader);
  RC_ASSERT(!reader.ok());
  RC_ASSERT(std::get<4>(seen) == 0U);
}

TEST(BytesTest, AfterAnOverrunEverythingReadsAsZero) {
  const auto bytes = bytes_from({1, 2, 3});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<std::uint32_t>(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<std::uint8_t>(), 0U) << "one byte would be there: but of which field?";
  EXPECT_EQ(reader.get_bytes<2>(), (std::array<std::byte, 2>{}));
}

TEST(BytesTest, SkippingPastTheEndIsAnOverrun) {
  const auto bytes = bytes_from({1, 2, 3});
  ByteReader reader(bytes);
  reader.skip(2);
  EXPECT_EQ(reader.remaining(), 1U);
  EXPECT_TRUE(reader.ok());
  reader.skip(SIZE_MAX);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<std::uint8_t>(), 0U);
  ByteReader empty({});
  empty.skip(0);
  EXPECT_TRUE(empty.ok());
}

TEST(BytesTest, ByteArraysKeepTheirOrder) {
  const auto bytes = bytes_from({9, 8, 7});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get_bytes<3>(),
            (std::array<std::byte, 3>{std::byte{9}, std::byte{8}, std::byte{7}}));
  EXPECT_TRUE(reader.ok());
}

TEST(BytesDeathTest, OverrunWhileWritingStopsTheProcess) {
  std::array<std::byte, 3> out{};
  EXPECT_DEATH(ByteWriter(out).put(std::uint32_t{1}), "layout overrun");
  EXPECT_DEATH(ByteWriter(out).skip(4), "layout overrun");
}

}  // namespace
}  // namespace imex
