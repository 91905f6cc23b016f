#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imex/allocation.hpp>

#include "free_memory.hpp"
#include "memory/host_allocation.hpp"
#include "memory/imported_segment.hpp"

namespace imex::memory {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kLives = 300;
#else
constexpr int kLives = 3'000;
#endif
constexpr std::size_t kMiB = std::size_t{1} << 20U;

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("imex-") != line.npos;
  return count;
}

std::shared_ptr<HostAllocation> allocate(std::size_t size_bytes,
                                         const AllocationOptions& options = {}) {
  auto result = HostAllocation::create(size_bytes, options);
  EXPECT_TRUE(result) << result.error().to_string();
  return result ? *result : nullptr;
}

TEST(AllocationTest, IsZeroedWritableAndAsLargeAsAsked) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, 3 * kMiB}) {
    auto memory = Allocation::create(size);
    ASSERT_TRUE(memory) << memory.error().to_string();
    EXPECT_EQ(memory->size(), size);
    for (const std::byte value : memory->bytes()) ASSERT_EQ(value, std::byte{0});
    std::memset(memory->data(), 0x5a, size);
    EXPECT_EQ(memory->data()[size - 1], std::byte{0x5a});
  }
}

TEST(AllocationTest, AddressIsAlignedUpToOneGiB) {
  for (std::size_t alignment = 1; alignment <= kMiB * 1024; alignment *= 4) {
    auto memory = Allocation::create(4096, {.alignment = alignment});
    ASSERT_TRUE(memory) << memory.error().to_string();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % alignment, 0U);
    std::memset(memory->data(), 1, memory->size());
  }
}

TEST(AllocationTest, SenselessRequestsAreRefused) {
  EXPECT_EQ(Allocation::create(0).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Allocation::create(SIZE_MAX).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Allocation::create(64, {.alignment = 0}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Allocation::create(64, {.alignment = 3000}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Allocation::create(64, {.alignment = 2048 * kMiB}).error().code,
            Errc::kInvalidArgument);
}

TEST(AllocationTest, TooMuchFailsBeforePagesAreTouchedAndSaysWhatWasFree) {
  const auto before = read_free_memory();
  ASSERT_TRUE(before);
  for (const bool prefault : {true, false}) {
    const std::size_t wanted = before->available_bytes + 4096 * kMiB;
    const auto memory = Allocation::create(wanted, {.prefault = prefault});
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, Errc::kResourceExhausted);
    EXPECT_THAT(memory.error().message, testing::HasSubstr(std::to_string(wanted)));
    EXPECT_THAT(memory.error().message, testing::HasSubstr("free"));
  }
}

TEST(AllocationTest, HugePagesFallBackToSmallOnesUnlessDemanded) {
  const auto free = read_free_memory();
  ASSERT_TRUE(free);
  const bool pool = free->huge_page_bytes == 2 * kMiB && free->huge_pages >= 2;
  auto automatic = allocate(4 * kMiB);
  EXPECT_EQ(automatic->backing() == Backing::kPoolHuge, pool);
  EXPECT_EQ(automatic->page_bytes(), pool ? 2 * kMiB : 4096U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(automatic->data()) % automatic->page_bytes(), 0U);
  EXPECT_EQ(allocate(4 * kMiB, {.pages = Pages::kSmall})->backing(), Backing::kSmall);
  const auto demanded = Allocation::create(4 * kMiB, {.pages = Pages::kHuge});
  ASSERT_EQ(demanded.has_value(), pool);
  if (!pool) {
    EXPECT_EQ(demanded.error().code, Errc::kResourceExhausted);
    EXPECT_THAT(demanded.error().message, testing::HasSubstr("2 huge pages"));
    EXPECT_THAT(demanded.error().hint, testing::HasSubstr("vm.nr_hugepages"));
  }
}

/// Resident pages of a range, by the kernel's word.
std::size_t resident_pages(const std::byte* data, std::size_t size_bytes) {
  std::vector<unsigned char> present(size_bytes / 4096);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(data), size_bytes, present.data()), 0);
  std::size_t count = 0;
  for (const unsigned char page : present) count += page & 1U;
  return count;
}

TEST(AllocationTest, PrefaultTouchesEveryPageNow) {
  const auto touched = allocate(8 * kMiB, {.pages = Pages::kSmall});
  EXPECT_EQ(resident_pages(touched->data(), 8 * kMiB), 2048U);
  const auto untouched = allocate(8 * kMiB, {.pages = Pages::kSmall, .prefault = false});
  EXPECT_EQ(resident_pages(untouched->data(), 8 * kMiB), 0U);
}

TEST(AllocationTest, DataDescriptorCannotBeTruncated) {
  const auto memory = allocate(8192);
  EXPECT_EQ(::ftruncate(memory->fds().data, 0), -1);
  EXPECT_EQ(::ftruncate(memory->fds().control, 0), -1);
}

TEST(AllocationTest, PublishIsIdempotentPerGeneration) {
  const auto memory = allocate(4096);
  EXPECT_EQ(memory->generation(), 0U);
  EXPECT_EQ(memory->publish(0, 1).error().code, Errc::kInvalidArgument);
  EXPECT_TRUE(memory->publish(5, 1));
  EXPECT_TRUE(memory->publish(5, 2));
  EXPECT_EQ(memory->publish(6, 1).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(memory->generation(), 5U);
}

// What revocation rests on: whoever kept the old pages sees nothing that was written later.
TEST(AllocationTest, MoveToFreshPagesFreezesTheOldOnes) {
  const auto memory = allocate(3 * 4096 + 5);
  std::memset(memory->data(), 0x11, memory->size());
  ASSERT_TRUE(memory->publish(1, 9));
  auto old_data = os::Mapping::map(memory->fds().data, 4 * 4096);
  auto old_control = os::Mapping::map(memory->fds().control, kControlBytes);
  ASSERT_TRUE(old_data && old_control);
  std::byte* const address = memory->data();

  const auto generation = memory->move_to_fresh_pages();
  ASSERT_TRUE(generation) << generation.error().to_string();
  EXPECT_EQ(*generation, 2U);
  EXPECT_EQ(memory->data(), address);
  EXPECT_EQ(address[memory->size() - 1], std::byte{0x11});

  std::memset(address, 0x22, memory->size());
  EXPECT_EQ(old_data->data()[0], std::byte{0x11});
  EXPECT_EQ(old_data->data()[memory->size() - 1], std::byte{0x11});
  std::memset(old_data->data(), 0x33, old_data->size());  // nor does the old importer reach us
  EXPECT_EQ(address[0], std::byte{0x22});

  EXPECT_EQ(read_segment_header(old_control->bytes()).error().code, Errc::kRevoked);
  const auto import = ImportedSegment::map(memory->fds().data, memory->fds().control,
                                           {.size_bytes = memory->size(), .generation = 2});
  ASSERT_TRUE(import) << import.error().to_string();
  EXPECT_EQ((*import)->data()[0], std::byte{0x22});
  EXPECT_EQ((*import)->rank(), 9U);
}

TEST(AllocationTest, UnpublishedMemoryMovesToo) {
  const auto memory = allocate(4096);
  memory->data()[7] = std::byte{7};
  EXPECT_EQ(memory->move_to_fresh_pages().value(), 0U);
  EXPECT_EQ(memory->data()[7], std::byte{7});
}

TEST(AllocationTest, ThousandsOfLivesLeaveNothingBehind) {
  static_cast<void>(allocate(4096));  // whatever is made once
  const std::size_t descriptors = open_descriptors();
  const std::size_t maps = mappings();
  for (int i = 0; i != kLives; ++i) {
    auto memory = HostAllocation::create(2 * 4096, {});
    ASSERT_TRUE(memory) << i << ": " << memory.error().to_string();
    ASSERT_TRUE((*memory)->publish(1, 0));
    auto import = ImportedSegment::map((*memory)->fds().data, (*memory)->fds().control,
                                       {.size_bytes = 2 * 4096, .generation = 1});
    ASSERT_TRUE(import) << i << ": " << import.error().to_string();
    if (i % 3 == 0) (*import)->revoke();
    if (i % 3 == 1) {
      ASSERT_TRUE((*memory)->move_to_fresh_pages());
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mappings(), maps);
}

TEST(FreeMemoryTest, ReadsMeminfoLines) {
  constexpr const char* kText = "MemTotal: 10 kB\nMemAvailable:   123 kB\nHugePages_Free:   7\n";
  EXPECT_EQ(find_meminfo(kText, "MemAvailable"), 123U * 1024);
  EXPECT_EQ(find_meminfo(kText, "HugePages_Free"), 7U);
  EXPECT_EQ(find_meminfo(kText, "Mem"), std::nullopt);
  EXPECT_EQ(find_meminfo("MemAvailable: lots\n", "MemAvailable"), std::nullopt);
}

TEST(FreeMemoryTest, ControlGroupLeavesLimitLessUseThatCannotBeGivenUp) {
  EXPECT_EQ(cgroup_headroom("1000\n", "700\n", "anon 1\ninactive_file 200\n"), 500U);
  EXPECT_EQ(cgroup_headroom("1000\n", "1500\n", ""), 0U);
  EXPECT_EQ(cgroup_headroom("max\n", "700\n", ""), std::nullopt);
}

}  // namespace
}  // namespace imex::memory
