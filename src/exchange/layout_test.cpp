#include "layout.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace imex::exchange {
namespace {

struct Range {
  std::size_t begin, end;
};

TEST(LayoutTest, AreasAreApartAndInsideForAnyNumberOfRanks) {
  for (std::uint32_t ranks = 1; ranks <= 72; ++ranks) {
    const auto layout = Layout::make({.ranks = ranks, .lanes = 2});
    ASSERT_TRUE(layout) << layout.error().to_string();
    for (const std::uint32_t owner : {0U, ranks / 2, ranks - 1}) {
      std::vector<Range> ranges{{0, 4096}};
      for (std::uint32_t lane = 0; lane != 2; ++lane) {
        for (std::uint32_t peer = 0; peer != ranks; ++peer) {
          if (peer == owner) continue;
          const auto add = [&](std::size_t at, std::size_t bytes, std::size_t alignment) {
            EXPECT_EQ(at % alignment, 0U);
            ranges.push_back({at, at + bytes});
          };
          add(layout->block(lane, owner, peer), sizeof(PeerBlock), 128);
          add(layout->packets(lane, owner, peer), kPacketSlots * kPacketLines * sizeof(PacketLine),
              128);
          add(layout->mailbox(lane, owner, peer), kMailLines * sizeof(PacketLine), 4096);
          add(layout->ring(lane, owner, peer), kRingSlotsMax * layout->ring_slot_bytes(), 4096);
        }
      }
      std::sort(ranges.begin(), ranges.end(),
                [](const Range& a, const Range& b) { return a.begin < b.begin; });
      for (std::size_t i = 1; i != ranges.size(); ++i) {
        ASSERT_LE(ranges[i - 1].end, ranges[i].begin) << ranks << " ranks, owner " << owner;
      }
      ASSERT_LE(ranges.back().end, layout->window_bytes());
    }
  }
}

TEST(LayoutTest, MemoryStaysWithinItsBudget) {
  EXPECT_LT(Layout::make({.ranks = 16})->window_bytes(), std::size_t{16} << 20U);
  EXPECT_LT(Layout::make({.ranks = 2})->window_bytes(), std::size_t{1} << 20U);
  EXPECT_EQ(Layout::make({.ranks = 2})->ring_slot_bytes(), std::size_t{64} << 10U);
  EXPECT_LT(Layout::make({.ranks = 72})->window_bytes(), std::size_t{16} << 20U);
}

TEST(LayoutTest, RefusesWhatIsOutOfRange) {
  for (const LayoutRequest& wrong :
       {LayoutRequest{.ranks = 0}, LayoutRequest{.ranks = kRanksMax + 1},
        LayoutRequest{.ranks = 2, .lanes = 0}, LayoutRequest{.ranks = 2, .lanes = kLanesMax + 1},
        LayoutRequest{.ranks = 2, .slot_bytes = 0}, LayoutRequest{.ranks = 2, .slot_bytes = 5000},
        LayoutRequest{.ranks = 2, .slot_bytes = 2 << 20}}) {
    const auto layout = Layout::make(wrong);
    ASSERT_FALSE(layout);
    EXPECT_EQ(layout.error().code, Errc::kInvalidArgument);
  }
}

}  // namespace
}  // namespace imex::exchange
