#include "memory/segment.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imex/handle.hpp>
#include <imex/session.hpp>

#include "memory/abort_page.hpp"
#include "memory/host_allocation.hpp"
#include "memory/imported_segment.hpp"
#include "revoked_access.hpp"

namespace imex::memory {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct ControlPage {
  alignas(64) std::array<std::byte, kControlBytes> bytes{};
  ControlPage() { publish_segment(header(), {8192, 4096, 3, 5}); }
  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(bytes.data()); }
};

TEST(SegmentTest, HeaderBytesAreAsDocumented) {
  ControlPage page;
  // docs/formats/segment.md, the example.
  const unsigned char expected[64] = {'I', 'M', 'E', 'X',  'S', 'E', 'G', '1', 1, 0, 64, 0,    5, 0,
                                      0,   0,   0,   0x20, 0,   0,   0,   0,   0, 0, 0,  0x10, 0, 0,
                                      0,   0,   0,   0,    3,   0,   0,   0,   1, 0, 0,  0};
  EXPECT_EQ(std::memcmp(page.bytes.data(), expected, sizeof(expected)), 0);
}

TEST(SegmentTest, PublishedHeaderReadsBack) {
  ControlPage page;
  const auto facts = read_segment_header(page.bytes);
  ASSERT_TRUE(facts) << facts.error().to_string();
  EXPECT_EQ(facts->size_bytes, 8192U);
  EXPECT_EQ(facts->page_bytes, 4096U);
  EXPECT_EQ(facts->generation, 3U);
  EXPECT_EQ(facts->rank, 5U);
}

TEST(SegmentTest, EveryDamagedFieldIsRefusedByName) {
  struct Case {
    std::function<void(SegmentHeader&)> damage;
    Errc code;
    const char* text;
  };
  const Case cases[] = {
      {[](auto& h) { h.magic ^= 1; }, Errc::kDataLoss, "magic"},
      {[](auto& h) { h.version = 2; }, Errc::kVersionMismatch, "version 1 wanted, 2 found"},
      {[](auto& h) { h.header_bytes = 63; }, Errc::kDataLoss, "64 bytes wanted, 63"},
      {[](auto& h) { h.size_bytes = 0; }, Errc::kDataLoss, "size"},
      {[](auto& h) { h.size_bytes = UINT64_MAX; }, Errc::kDataLoss, "size"},
      {[](auto& h) { h.page_bytes = 0; }, Errc::kDataLoss, "pages"},
      {[](auto& h) { h.page_bytes = 5000; }, Errc::kDataLoss, "pages"},
      {[](auto& h) { h.page_bytes = std::uint64_t{1} << 40U; }, Errc::kDataLoss, "pages"},
      {[](auto& h) { h.state = 0; }, Errc::kDataLoss, "never published"},
      {[](auto& h) { h.state = 2; }, Errc::kRevoked, "withdrawn"},
      {[](auto& h) { h.state = 9; }, Errc::kDataLoss, "9 found"},
  };
  for (const Case& c : cases) {
    ControlPage page;
    c.damage(page.header());
    const auto facts = read_segment_header(page.bytes);
    ASSERT_FALSE(facts) << c.text;
    EXPECT_EQ(facts.error().code, c.code) << c.text;
    EXPECT_THAT(facts.error().message, HasSubstr(c.text));
  }
  EXPECT_EQ(read_segment_header({}).error().code, Errc::kDataLoss);
  const std::array<std::byte, kControlBytes> empty{};
  EXPECT_THAT(read_segment_header(empty).error().message, HasSubstr("never published"));
}

/// An exporter's two descriptors.
struct Exporter {
  std::shared_ptr<HostAllocation> memory;
  explicit Exporter(std::size_t size_bytes = 8192)
      : memory(HostAllocation::create(size_bytes, {}).value()) {
    EXPECT_TRUE(memory->publish(1, 4));
  }
  [[nodiscard]] Result<std::unique_ptr<ImportedSegment>> import(
      std::uint32_t generation = 1) const {
    return ImportedSegment::map(memory->fds().data, memory->fds().control,
                                {.size_bytes = memory->size(), .generation = generation});
  }
};

TEST(ImportedSegmentTest, SharesTheExportersBytes) {
  const Exporter exporter(5000);
  auto import = exporter.import();
  ASSERT_TRUE(import) << import.error().to_string();
  EXPECT_EQ((*import)->size(), 5000U);
  EXPECT_NE((*import)->data(), exporter.memory->data());
  exporter.memory->data()[4999] = std::byte{0x77};
  EXPECT_EQ((*import)->data()[4999], std::byte{0x77});
}

TEST(ImportedSegmentTest, OutlivesTheExporter) {
  auto exporter = std::make_unique<Exporter>();
  exporter->memory->data()[0] = std::byte{1};
  auto import = exporter->import();
  exporter.reset();
  ASSERT_TRUE(import);
  EXPECT_EQ((*import)->data()[0], std::byte{1});
}

TEST(ImportedSegmentTest, OtherGenerationIsStale) {
  const Exporter exporter;
  const auto import = exporter.import(2);
  ASSERT_FALSE(import);
  EXPECT_EQ(import.error().code, Errc::kStale);
  EXPECT_THAT(import.error().message, HasSubstr("generation 2 wanted, 1 found"));
  exporter.memory->mark_revoked();
  EXPECT_EQ(exporter.import().error().code, Errc::kRevoked);
}

TEST(ImportedSegmentTest, SizeMustBeWhatTheDaemonSaid) {
  const Exporter exporter;
  const auto fds = exporter.memory->fds();
  const auto import = ImportedSegment::map(fds.data, fds.control, {4096, 1});
  ASSERT_FALSE(import);
  EXPECT_EQ(import.error().code, Errc::kDataLoss);
}

os::UniqueFd unsealed(std::size_t size_bytes) {
  os::UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
  return fd;
}

// A peer that can truncate what we map can kill us with SIGBUS at any time.
TEST(ImportedSegmentTest, DescriptorsThatCanShrinkAreRefused) {
  const Exporter exporter;
  const auto fds = exporter.memory->fds();
  const os::UniqueFd data = unsealed(8192);
  const os::UniqueFd control = unsealed(kControlBytes);
  const os::UniqueFd plain(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  for (const auto& [data_fd, control_fd] :
       {std::pair(data.get(), fds.control), std::pair(fds.data, control.get()),
        std::pair(plain.get(), fds.control), std::pair(fds.data, plain.get())}) {
    const auto import = ImportedSegment::map(data_fd, control_fd, {8192, 1});
    ASSERT_FALSE(import);
    EXPECT_EQ(import.error().code, Errc::kPermissionDenied) << import.error().to_string();
  }
  EXPECT_FALSE(ImportedSegment::map(-1, fds.control, {8192, 1}));
}

TEST(ImportedSegmentTest, SealedDescriptorsOfTheWrongSizeAreRefused) {
  const Exporter exporter;
  const auto fds = exporter.memory->fds();
  const Exporter larger(3 * 4096);
  const auto data = ImportedSegment::map(larger.memory->fds().data, fds.control, {8192, 1});
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code, Errc::kDataLoss);
  EXPECT_THAT(data.error().message, HasSubstr("8192 bytes wanted, 12288 found"));
  // The descriptors the wrong way round.
  EXPECT_EQ(ImportedSegment::map(fds.control, fds.data, {8192, 1}).error().code, Errc::kDataLoss);
}

TEST(ImportedSegmentTest, QuiesceWaitsForOperationsAndClosesTheDoor) {
  const Exporter exporter;
  const auto import = std::move(exporter.import().value());
  ASSERT_TRUE(import->begin_operation());
  EXPECT_FALSE(import->quiesce(std::chrono::steady_clock::now() + 5ms));
  EXPECT_FALSE(import->begin_operation());
  std::jthread ender([&] { import->end_operation(); });
  EXPECT_TRUE(import->quiesce(std::chrono::steady_clock::now() + 10s));
  EXPECT_FALSE(import->begin_operation());
}

// Operations of several threads against a closing door: each that began has ended when quiesce()
// says so. Method: operations count themselves, in plain view of TSan.
TEST(ImportedSegmentTest, NoOperationRunsAfterQuiesce) {
  for (int round = 0; round != 50; ++round) {
    const Exporter exporter;
    const auto import = std::move(exporter.import().value());
    std::vector<std::jthread> threads;
    for (int i = 0; i != 3; ++i) {
      threads.emplace_back([&, i] {
        while (import->begin_operation()) {
          import->data()[i * 64] = std::byte{1};
          import->end_operation();
        }
      });
    }
    ASSERT_TRUE(import->quiesce(std::chrono::steady_clock::now() + 10s));
    import->revoke();  // a running operation would fault here
    threads.clear();
  }
}

using ImportedSegmentDeathTest = testing::Test;

TEST(ImportedSegmentDeathTest, RevokedMemoryFaultsAndIsExplained) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer defers signals of the test process";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Exporter exporter;
  const auto import = std::move(exporter.import().value());
  EXPECT_DEATH(
      {
        ::signal(SIGSEGV, SIG_DFL);
        if (!report_revoked_access()) ::_exit(1);
        import->revoke();
        *static_cast<volatile std::byte*>(import->data() + 17) = std::byte{1};
      },
      "access to revoked memory at 0x[0-9a-f]+: byte 17 of an import of 8192 bytes from rank 4, "
      "generation 1");
}

TEST(ImportedSegmentDeathTest, OtherFaultsReachTheFormerHandlerUnexplained) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer defers signals of the test process";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ::signal(SIGSEGV, [](int) { ::_exit(42); });
        if (!report_revoked_access()) ::_exit(1);
        void* wall = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *static_cast<volatile char*>(wall) = 1;
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(ImportedSegmentTest, RevokeMayBeRepeatedAndKeepsTheRangeReserved) {
  const Exporter exporter;
  auto import = std::move(exporter.import().value());
  const auto address = reinterpret_cast<std::uintptr_t>(import->data());
  EXPECT_FALSE(find_revoked_range(address));
  import->revoke();
  import->revoke();
  EXPECT_TRUE(import->revoked());
  ASSERT_TRUE(find_revoked_range(address + 8191));
  EXPECT_FALSE(find_revoked_range(address + 8192));
  import.reset();
  EXPECT_FALSE(find_revoked_range(address));
}

TEST(RevokedRangeTest, FullTableTakesNoMoreAndRecovers) {
  std::vector<int> slots;
  for (std::uintptr_t i = 0; i != kRevokedRangesMax; ++i) {
    slots.push_back(note_revoked_range({.begin = (i + 1) << 20U, .size_bytes = 4096}));
    ASSERT_GE(slots.back(), 0);
  }
  EXPECT_EQ(note_revoked_range({.begin = 1U << 12U, .size_bytes = 1}), -1);
  EXPECT_EQ(find_revoked_range((5U << 20U) + 1)->begin, 5U << 20U);
  for (const int slot : slots) forget_revoked_range(slot);
  forget_revoked_range(-1);
  EXPECT_FALSE(find_revoked_range((5U << 20U) + 1));
}

TEST(AbortPageTest, BytesAreAsDocumented) {
  const auto page = AbortPage::create(0x1122334455667788U).value();
  const auto* bytes = reinterpret_cast<const unsigned char*>(page.cell(0)) - 64;
  const unsigned char header[24] = {'I',  'M',  'E',  'X',  'A',  'B',  'R',  '1',
                                    1,    0,    63,   0,    0,    0,    0,    0,
                                    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  EXPECT_EQ(std::memcmp(bytes, header, sizeof(header)), 0);
  ASSERT_TRUE(page.trip(1, {Errc::kPeerLost, 3}));
  const unsigned char word[8] = {10, 0, 0, 0, 3, 0, 0, 0};
  EXPECT_EQ(std::memcmp(bytes + 128, word, sizeof(word)), 0);
}

TEST(AbortPageTest, PeerWritesAndFirstCauseStays) {
  const auto page = AbortPage::create(7).value();
  const auto adopted = AbortPage::adopt(page.fd());
  ASSERT_TRUE(adopted) << adopted.error().to_string();
  EXPECT_EQ(adopted->session_id(), 7U);
  EXPECT_TRUE(adopted->trip(62, {Errc::kRevoked, kNoRank}));
  EXPECT_FALSE(page.trip(62, {Errc::kPeerLost, 1}));
  const std::uint64_t word = page.cell(62)->word.load();
  EXPECT_EQ(decode_abort(word), (AbortCause{Errc::kRevoked, kNoRank}));
  page.reset(62);
  EXPECT_EQ(adopted->cell(62)->word.load(), 0U);
}

TEST(AbortPageTest, IndexFromAPeerIsChecked) {
  const auto page = AbortPage::create(1).value();
  EXPECT_EQ(page.cell(kAbortCellCount), nullptr);
  EXPECT_FALSE(page.trip(kAbortCellCount, {Errc::kPeerLost, 1}));
  EXPECT_FALSE(page.trip(UINT32_MAX, {Errc::kPeerLost, 1}));
}

TEST(AbortPageTest, ForgedPagesAreRefused) {
  const os::UniqueFd loose = unsealed(kAbortPageBytes);
  EXPECT_EQ(AbortPage::adopt(loose.get()).error().code, Errc::kPermissionDenied);
  const auto large = os::make_memfd("large", 8192).value();
  EXPECT_EQ(AbortPage::adopt(large.get()).error().code, Errc::kDataLoss);
  const auto zero = os::make_memfd("zero", kAbortPageBytes).value();
  EXPECT_THAT(AbortPage::adopt(zero.get()).error().message, HasSubstr("magic"));
  const auto page = AbortPage::create(1).value();
  auto* header = reinterpret_cast<AbortPageHeader*>(page.cell(0)) - 1;
  header->version = 9;
  EXPECT_EQ(AbortPage::adopt(page.fd()).error().code, Errc::kVersionMismatch);
  header->version = kAbortPageVersion;
  header->cell_count = 64;
  EXPECT_EQ(AbortPage::adopt(page.fd()).error().code, Errc::kDataLoss);
  EXPECT_FALSE(AbortPage::adopt(-1));
}

TEST(AbortWordTest, EveryCauseSurvivesAndAnyWordDecodes) {
  for (std::uint16_t code = 1; code <= 16; ++code) {
    const AbortCause cause{static_cast<Errc>(code), code == 3 ? kNoRank : code};
    EXPECT_EQ(decode_abort(encode_abort(cause)), cause);
    EXPECT_NE(static_cast<std::uint32_t>(encode_abort(cause)), 0U);  // the futex word
  }
  EXPECT_NE(encode_abort({Errc::kOk, 1}) & 0xffffU, 0U);
  EXPECT_EQ(decode_abort(0xffff).code, Errc::kInternal);
  EXPECT_EQ(decode_abort(std::uint64_t{5} << 32U).code, Errc::kInternal);
  const Error error = abort_error(encode_abort({Errc::kPeerLost, 3}));
  EXPECT_EQ(error.code, Errc::kPeerLost);
  EXPECT_EQ(error.rank, 3U);
  EXPECT_THAT(error.message, HasSubstr("rank 3"));
}

TEST(HandleTest, HexRoundTrip) {
  Handle handle;
  for (std::size_t i = 0; i != 64; ++i) handle.bytes[i] = static_cast<std::byte>(i * 37);
  const std::string text = handle.to_hex();
  EXPECT_EQ(text.size(), 128U);
  EXPECT_EQ(text.substr(0, 8), "00254a6f");
  EXPECT_EQ(Handle::from_hex(text).value(), handle);
  std::string upper = text;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(Handle::from_hex(upper).value(), handle);
}

TEST(HandleTest, AnythingElseIsRefusedWithoutRepeatingIt) {
  const std::string good = Handle{}.to_hex();
  EXPECT_EQ(Handle::from_hex("").error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(Handle::from_hex(good + "0"));
  EXPECT_FALSE(Handle::from_hex(good.substr(1)));
  std::string bad = good;
  bad[77] = 'g';
  const auto error = Handle::from_hex(bad).error();
  EXPECT_THAT(error.message, HasSubstr("character 77"));
  EXPECT_THAT(error.message, testing::Not(HasSubstr("000")));
}

}  // namespace
}  // namespace imex::memory
