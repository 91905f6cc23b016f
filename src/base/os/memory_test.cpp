#include "os/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <vector>

#include "os/file.hpp"
#include "test_support.hpp"

namespace imex::os {
namespace {

using MemoryTest = OsTest;

UniqueFd memfd_of(std::size_t pages) {
  auto fd = make_memfd("test", pages * page_bytes());
  EXPECT_TRUE(fd) << fd.error().to_string();
  return std::move(*fd);
}

/// Pages of a mapping that are present, by the kernel's word.
std::size_t resident_pages(const Mapping& mapping) {
  std::vector<unsigned char> flags((mapping.size() + page_bytes() - 1) / page_bytes());
  EXPECT_EQ(::mincore(mapping.data(), mapping.size(), flags.data()), 0);
  return static_cast<std::size_t>(std::count_if(
      flags.begin(), flags.end(), [](unsigned char flag) { return (flag & 1U) != 0; }));
}

TEST_F(MemoryTest, SealsRefuseEveryChangeOfSizeAndOfSeals) {
  const UniqueFd fd = memfd_of(2);
  const auto size = static_cast<off_t>(2 * page_bytes());
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd.get(), size * 2), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  const auto facts = file_facts(fd.get());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->size_bytes, 2 * page_bytes());
  EXPECT_TRUE(facts->sealed_shrink);
  EXPECT_NE(facts->inode, 0U);
}

TEST_F(MemoryTest, DescriptorsAreCloseOnExec) {
  const UniqueFd fd = memfd_of(1);
  const auto copy = fd.duplicate();
  ASSERT_TRUE(copy);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_FALSE(UniqueFd().duplicate());
}

TEST_F(MemoryTest, SizesThatAreNoWholePagesAreRefused) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, page_bytes() + 1, SIZE_MAX & ~(page_bytes() - 1)}) {
    const auto fd = make_memfd("odd", size);
    ASSERT_FALSE(fd) << size;
    EXPECT_EQ(fd.error().code, Errc::kInvalidArgument);
  }
}

TEST_F(MemoryTest, OrdinaryFilesAreNotSealed) {
  ASSERT_TRUE(replace_file(path("f"), {}));
  const UniqueFd file(::open(path("f").c_str(), O_RDWR | O_CLOEXEC));
  const auto facts = file_facts(file.get());
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->sealed_shrink);
  EXPECT_FALSE(file_facts(-1));
  const UniqueFd unsealed(::memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_FALSE(file_facts(unsealed.get())->sealed_shrink);
}

TEST_F(MemoryTest, TwoMappingsShareTheirBytes) {
  const UniqueFd fd = memfd_of(1);
  auto writer = Mapping::map(fd.get(), page_bytes());
  auto reader = Mapping::map(fd.get(), page_bytes(), {.access = Mapping::Access::kRead});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(reader);
  EXPECT_EQ(writer->size(), page_bytes());
  writer->data()[17] = std::byte{42};
  EXPECT_EQ(reader->data()[17], std::byte{42});
}

TEST_F(MemoryTest, AddressesAreAlignedAsAsked) {
  const UniqueFd fd = memfd_of(3);
  for (std::size_t alignment = 1; alignment <= std::size_t{1} << 30U; alignment *= 4) {
    auto mapping = Mapping::map(fd.get(), 3 * page_bytes(), {.alignment = alignment});
    ASSERT_TRUE(mapping) << alignment;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % alignment, 0U);
    mapping->data()[3 * page_bytes() - 1] = std::byte{1};  // all of it is there
  }
  EXPECT_EQ(Mapping::map(fd.get(), page_bytes(), {.alignment = 3}).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(Mapping::map(fd.get(), page_bytes(), {.alignment = 0}).error().code,
            Errc::kInvalidArgument);
}

TEST_F(MemoryTest, MoreThanTheFileHoldsIsRefused) {
  const UniqueFd fd = memfd_of(1);
  EXPECT_EQ(Mapping::map(fd.get(), page_bytes() + 1).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Mapping::map(fd.get(), 0).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Mapping::map(fd.get(), SIZE_MAX).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(Mapping::map(-1, page_bytes()));
}

TEST_F(MemoryTest, ReadOnlyDescriptorGivesNoWritableMapping) {
  const UniqueFd fd = memfd_of(1);
  const UniqueFd read_only(
      ::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(Mapping::map(read_only.get(), page_bytes(), {.access = Mapping::Access::kRead}));
  EXPECT_EQ(Mapping::map(read_only.get(), page_bytes()).error().code, Errc::kPermissionDenied);
}

TEST_F(MemoryTest, PopulateBringsEveryPageIn) {
  constexpr std::size_t kPages = 64;
  const UniqueFd lazy_fd = memfd_of(kPages);
  const auto lazy = Mapping::map(lazy_fd.get(), kPages * page_bytes());
  ASSERT_TRUE(lazy);
  EXPECT_EQ(resident_pages(*lazy), 0U);
  for (const auto access : {Mapping::Access::kRead, Mapping::Access::kReadWrite}) {
    const UniqueFd fd = memfd_of(kPages);
    const auto mapping =
        Mapping::map(fd.get(), kPages * page_bytes(), {.access = access, .populate = true});
    ASSERT_TRUE(mapping);
    EXPECT_EQ(resident_pages(*mapping), kPages);
  }
}

TEST_F(MemoryTest, TransparentHugePagesAreOnlyAdvice) {
  constexpr std::size_t kBytes = 4U << 20U;
  const auto fd = make_memfd("huge", kBytes);
  ASSERT_TRUE(fd);
  const auto mapping = Mapping::map(
      fd->get(), kBytes, {.populate = true, .alignment = 2U << 20U, .advise_huge = true});
  ASSERT_TRUE(mapping);
  EXPECT_EQ(resident_pages(*mapping), kBytes / page_bytes());
}

// The pool of most machines is empty: then the answer must come at once, not as SIGBUS at first
// touch.
TEST_F(MemoryTest, HugePagePoolIsReservedAtOnceOrRefused) {
  constexpr std::size_t kHuge = 2U << 20U;
  EXPECT_EQ(make_memfd("odd", page_bytes(), HugePages::kPool).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(make_memfd("all", kHuge << 24U, HugePages::kPool).error().code,
            Errc::kResourceExhausted);
  const auto fd = make_memfd("one", kHuge, HugePages::kPool);
  if (!fd) {
    EXPECT_EQ(fd.error().code, Errc::kResourceExhausted) << fd.error().to_string();
    GTEST_SKIP() << "no free page in the pool: " << fd.error().message;
  }
  auto mapping = Mapping::map(fd->get(), kHuge, {.populate = true});
  ASSERT_TRUE(mapping);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % kHuge, 0U);
  mapping->data()[kHuge - 1] = std::byte{1};
  mapping->make_inaccessible();
  EXPECT_TRUE(mapping->replace(fd->get()));
  EXPECT_EQ(mapping->data()[kHuge - 1], std::byte{1});
}

TEST_F(MemoryTest, ReplaceKeepsTheAddressAndChangesThePages) {
  const UniqueFd first = memfd_of(2);
  const UniqueFd second = memfd_of(2);
  auto mapping = Mapping::map(first.get(), 2 * page_bytes());
  auto other = Mapping::map(second.get(), 2 * page_bytes());
  ASSERT_TRUE(mapping);
  ASSERT_TRUE(other);
  std::byte* const address = mapping->data();
  mapping->data()[5] = std::byte{1};
  other->data()[5] = std::byte{2};
  mapping->make_inaccessible();
  ASSERT_TRUE(mapping->replace(second.get()));
  EXPECT_EQ(mapping->data(), address);
  EXPECT_EQ(address[5], std::byte{2});
  address[6] = std::byte{3};
  EXPECT_EQ(other->data()[6], std::byte{3});

  const UniqueFd small = memfd_of(1);
  EXPECT_EQ(mapping->replace(small.get()).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(address[5], std::byte{2}) << "a refused replacement changes nothing";
}

TEST_F(MemoryTest, ReplaceKeepsTheAccess) {
  const UniqueFd fd = memfd_of(1);
  const UniqueFd read_only(
      ::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  auto mapping = Mapping::map(fd.get(), page_bytes(), {.access = Mapping::Access::kRead});
  ASSERT_TRUE(mapping);
  EXPECT_TRUE(mapping->replace(read_only.get())) << "a writable mapping would be refused";
}

sigjmp_buf after_fault;
void leave_fault(int /*signal*/) { siglongjmp(after_fault, 1); }

bool faults(const std::byte* address) {
  struct sigaction action{};
  struct sigaction former{};
  action.sa_handler = leave_fault;
  ::sigaction(SIGSEGV, &action, &former);
  const bool faulted = sigsetjmp(after_fault, 1) != 0;
  if (!faulted) static_cast<void>(*static_cast<const volatile std::byte*>(address));
  ::sigaction(SIGSEGV, &former, nullptr);
  return faulted;
}

TEST_F(MemoryTest, InaccessibleMemoryFaultsAndStaysReserved) {
  const UniqueFd fd = memfd_of(1);
  auto mapping = Mapping::map(fd.get(), page_bytes());
  ASSERT_TRUE(mapping);
  EXPECT_FALSE(faults(mapping->data()));
  mapping->make_inaccessible();
  EXPECT_TRUE(faults(mapping->data()));
  void* const taken = ::mmap(mapping->data(), page_bytes(), PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_EQ(taken, MAP_FAILED);
  EXPECT_EQ(errno, EEXIST);
}

TEST_F(MemoryTest, MovedFromMappingOwnsNothing) {
  const UniqueFd fd = memfd_of(1);
  auto made = Mapping::map(fd.get(), page_bytes());
  ASSERT_TRUE(made);
  Mapping first = std::move(*made);
  const std::byte* const address = first.data();
  Mapping second;
  second = std::move(first);
  first.reset();
  EXPECT_EQ(second.data(), address);
  EXPECT_FALSE(faults(address));
  second.reset();
  EXPECT_TRUE(faults(address));
  EXPECT_FALSE(second);
  second.make_inaccessible();  // of nothing: no effect
}

TEST_F(MemoryTest, MapFileShowsTheFileAndRefusesWhatIsNone) {
  const std::string directory = *make_temporary_directory("map-file");
  const std::string path = directory + "/data";
  const std::string text = "some bytes";
  ASSERT_TRUE(replace_file(path, std::as_bytes(std::span(text))));
  {
    const auto map = map_file(path);
    ASSERT_TRUE(map) << map.error().to_string();
    EXPECT_TRUE(std::ranges::equal(map->bytes(), std::as_bytes(std::span(text))));
  }
  EXPECT_EQ(map_file(directory + "/none").error().code, Errc::kNotFound);
  EXPECT_EQ(map_file(directory).error().code, Errc::kInvalidArgument);
  ASSERT_EQ(::mkfifo((directory + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(map_file(directory + "/pipe").error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(replace_file(directory + "/empty", {}));
  EXPECT_EQ(map_file(directory + "/empty").error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(remove_tree(directory));
}

}  // namespace
}  // namespace imex::os
