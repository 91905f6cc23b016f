#include "exchange/page_kind.hpp"

#include <cstring>

#include <gmock/gmock.h>

namespace imex::bench {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

constexpr std::string_view kSmaps =
    "00200000-00600000 rw-p 00000000 00:00 0\n"
    "Size:               4096 kB\n"
    "KernelPageSize:        4 kB\n"
    "AnonHugePages:      4096 kB\n"
    "ShmemPmdMapped:        0 kB\n"
    "VmFlags: rd wr mr mw me ac sd hg\n"
    "00600000-00a00000 rw-p 00000000 00:00 0    [heap]\n"
    "KernelPageSize:        4 kB\n"
    "AnonHugePages:         0 kB\n"
    "40000000-40400000 rw-s 00000000 00:0f 1234 /memfd:imex-data (deleted)\n"
    "KernelPageSize:     2048 kB\n"
    "AnonHugePages:         0 kB\n"
    "50000000-50400000 rw-s 00000000 00:0f 1234 /memfd:imex-data (deleted)\n"
    "KernelPageSize:        4 kB\n"
    "ShmemPmdMapped:     2048 kB\n";

TEST(PageKindTest, IsReadFromTheKernelsWords) {
  EXPECT_EQ(find_page_kind(kSmaps, 0x200000, 4 * kMiB), PageKind::kHuge) << "transparent";
  EXPECT_EQ(find_page_kind(kSmaps, 0x600000, 4 * kMiB), PageKind::kSmall);
  EXPECT_EQ(find_page_kind(kSmaps, 0x40000000, 4 * kMiB), PageKind::kHuge) << "of the pool";
  EXPECT_EQ(find_page_kind(kSmaps, 0x50000000, 4 * kMiB), PageKind::kMixed) << "half of it";
  EXPECT_EQ(find_page_kind(kSmaps, 0x400000, 4 * kMiB), PageKind::kMixed) << "two mappings";
  EXPECT_EQ(find_page_kind("", 0x400000, 4 * kMiB), PageKind::kSmall);
}

TEST(PageKindTest, PagesThatWereNotAskedForAreRefused) {
  EXPECT_TRUE(check_pages(Pages::kAuto, PageKind::kMixed, "it"));
  EXPECT_TRUE(check_pages(Pages::kHuge, PageKind::kHuge, "it"));
  const auto small = check_pages(Pages::kHuge, PageKind::kSmall, "a vector of 4 MiB");
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, Errc::kResourceExhausted);
  EXPECT_EQ(small.error().message, "--pages huge: a vector of 4 MiB got small pages");
  EXPECT_THAT(small.error().hint, testing::HasSubstr("vm.nr_hugepages"));
  EXPECT_FALSE(check_pages(Pages::kSmall, PageKind::kHuge, "it"));
}

TEST(PrivateMemoryTest, SmallPagesAreSmallAndWritableToTheEnd) {
  auto memory = PrivateMemory::create(5 * kMiB + 100, Pages::kSmall);
  ASSERT_TRUE(memory) << memory.error().to_string();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % (2 * kMiB), 0U);
  std::memset(memory->data(), 1, 5 * kMiB + 100);
  const auto kind = page_kind_of(memory->data(), 5 * kMiB);
  ASSERT_TRUE(kind) << kind.error().to_string();
  EXPECT_EQ(*kind, PageKind::kSmall);
}

TEST(PrivateMemoryTest, HugePagesAreHugeOrRefused) {
  const auto memory = PrivateMemory::create(4 * kMiB, Pages::kHuge);
  if (!memory) {
    EXPECT_EQ(memory.error().code, Errc::kResourceExhausted);
    return;
  }
  const auto kind = page_kind_of(memory->data(), 4 * kMiB);
  ASSERT_TRUE(kind);
  EXPECT_EQ(*kind, PageKind::kHuge);
}

TEST(PrivateMemoryDeathTest, WhatLiesBehindTheVectorFaults) {
  auto memory = PrivateMemory::create(4096, Pages::kSmall);
  ASSERT_TRUE(memory);
  EXPECT_DEATH(memory->data()[4096] = std::byte{1}, "");
}

}  // namespace
}  // namespace imex::bench
