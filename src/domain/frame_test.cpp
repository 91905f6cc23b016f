#include "domain/frame.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace imex::domain {
namespace {

template <std::size_t N>
std::array<std::byte, N> filled(std::uint8_t from) {
  std::array<std::byte, N> out{};
  for (std::size_t i = 0; i < N; ++i) out[i] = static_cast<std::byte>(from + i);
  return out;
}

/// One message of each type with a different value in each field.
std::vector<Message> samples() {
  const Handle handle{filled<64>(1)};
  const Secret token = filled<16>(200);
  const Uuid x{filled<16>(3)}, y{filled<16>(40)}, z{filled<16>(77)};
  Reply ok;
  ok.id = 1;
  ok.token = token;
  ok.handle = handle;
  ok.size_bytes = 2;
  ok.gpu_uid = 3;
  ok.gpu_index = 4;
  ok.channel = 5;
  ok.generation = 6;
  ok.rank = 7;
  ok.node = 8;
  ok.lease_ms = 9;
  Reply bad;
  bad.code = Errc::kPermissionDenied;
  bad.id = 77;
  bad.text = make_error_text("the handle is not valid here");
  LinkImportReply granted;
  granted.import_id = 1;
  granted.size_bytes = 2;
  granted.gpu_uid = 3;
  granted.partition_domain = x;
  granted.partition_clique = 4;
  granted.generation = 5;
  granted.rank = 6;
  LinkImportReply refused;
  refused.code = Errc::kStale;
  refused.import_id = 9;
  refused.text = make_error_text(std::string(500, 'x'));
  return {Open{1, token, 2, 3},
          AttachEvents{4, token},
          ExportRequest{1, 2, 3, 4, 5, 1},
          ImportRequest{handle, 1, 2, 3},
          UnexportRequest{1},
          UnimportRequest{2},
          RevokeAck{3},
          Close{},
          ok,
          bad,
          Event{Event::Kind::kExportQuiescent, 1, 2, 3, Errc::kRevoked, 4, 5, 6},
          LinkHello{x, y, z, 1, 2},
          LinkImport{handle, 1, 2, x, 3, 4, 5, 1},
          granted,
          refused,
          LinkImportEnded{1, 1},
          LinkImportMoved{1, x, 2},
          LinkExportEnded{1, Errc::kPeerLost, 2},
          LinkRevokeAck{1, 2}};
}

TEST(FrameTest, EveryMessageSurvivesTheWire) {
  std::set<std::size_t> types;
  for (const Message& message : samples()) {
    const Frame frame{0x0102'0304, message};
    const auto back = decode(encode(frame));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, frame) << "type " << message.index() + 1;
    types.insert(message.index());
  }
  EXPECT_EQ(types.size(), std::variant_size_v<Message>);
}

TEST(FrameTest, HeaderStandsWhereTheFormatSays) {
  const FrameBytes bytes = encode(Frame{0x0a0b'0c0d, UnexportRequest{0x1122'3344'5566'7788}});
  const std::uint8_t expected[] = {'I',  'M',  'X',  'F',  1,    0,    5, 0,    0x0d,
                                   0x0c, 0x0b, 0x0a, 0,    0,    0,    0, 0x88, 0x77,
                                   0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(std::to_integer<std::uint8_t>(bytes[i]), expected[i]) << "byte " << i;
  }
}

TEST(FrameTest, WrongLengthIsDamage) {
  const FrameBytes bytes = encode(Frame{1, Close{}});
  for (std::size_t size = 0; size < kFrameBytes; ++size) {
    EXPECT_EQ(decode(std::span(bytes).first(size)).error().code, Errc::kDataLoss);
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode(longer).error().code, Errc::kDataLoss);
}

TEST(FrameTest, AnotherVersionIsToldApartFromDamage) {
  FrameBytes bytes = encode(Frame{1, Close{}});
  bytes[4] = std::byte{2};
  EXPECT_EQ(decode(bytes).error().code, Errc::kVersionMismatch);
  bytes[0] = std::byte{'X'};
  EXPECT_EQ(decode(bytes).error().code, Errc::kDataLoss);
}

TEST(FrameTest, UnknownTypesAreRefused) {
  for (const unsigned type : {0U, 18U, 255U}) {
    FrameBytes bytes = encode(Frame{1, Close{}});
    bytes[6] = static_cast<std::byte>(type);
    EXPECT_EQ(decode(bytes).error().code, Errc::kDataLoss);
  }
}

// A decoded frame encodes to the same bytes or the bytes were refused: no byte is ignored. Texts
// and unknown error numbers are the exception, they are made harmless.
TEST(FrameTest, ByteThatIsNoFieldMustBeZero) {
  for (const Message& message : samples()) {
    const FrameBytes good = encode(Frame{1, message});
    for (std::size_t i = 0; i < kFrameBytes; ++i) {
      FrameBytes bytes = good;
      bytes[i] ^= std::byte{0x80};
      const auto frame = decode(bytes);
      if (!frame) continue;
      const auto again = decode(encode(*frame));
      ASSERT_TRUE(again);
      EXPECT_EQ(*again, *frame);
      const bool has_text = std::holds_alternative<Reply>(message) ||
                            std::holds_alternative<LinkImportReply>(message);
      const bool has_code = has_text || std::holds_alternative<Event>(message) ||
                            std::holds_alternative<LinkExportEnded>(message);
      if (has_code) continue;
      EXPECT_EQ(encode(*frame), bytes) << "type " << message.index() + 1 << " byte " << i;
    }
  }
}

TEST(FrameTest, ErrorTextIsCutPaddedAndWithoutControlCharacters) {
  EXPECT_EQ(view_error_text(make_error_text("short")), "short");
  EXPECT_EQ(view_error_text(make_error_text(std::string(1000, 'y'))).size(), kErrorTextBytes);
  Reply reply;
  reply.code = Errc::kInternal;
  reply.text = make_error_text("a\x1b[31mb\nc");
  const auto back = decode(encode(Frame{1, reply}));
  EXPECT_EQ(view_error_text(std::get<Reply>(back->message).text), "a [31mb c");
}

TEST(FrameTest, OnlyFramesThatCarryDescriptorsMayHaveThem) {
  EXPECT_EQ(frame_descriptors_max(Open{}), 2U);
  EXPECT_EQ(frame_descriptors_max(ExportRequest{}), 2U);
  EXPECT_EQ(frame_descriptors_max(LinkImportReply{}), 2U);
  EXPECT_EQ(frame_descriptors_max(ImportRequest{}), 0U);
  EXPECT_EQ(frame_descriptors_max(Close{}), 0U);
}

}  // namespace
}  // namespace imex::domain
