#include "exchange/page_kind.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"
#include "os/file.hpp"
#include "os/memory.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kHugeBytes = std::size_t{2} << 20U;
constexpr std::size_t kSmapsLimitBytes = std::size_t{64} << 20U;

/// The number at the start of `text`, which is moved behind it.
std::uint64_t take_number(std::string_view& text, int base) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return value;
}

/// One mapping of smaps, as far as it lies in the range that is looked for.
struct Overlap {
  std::uint64_t bytes = 0;
  std::uint64_t transparent = 0;  ///< huge, of the whole mapping
  bool pool = false;

  [[nodiscard]] std::uint64_t huge() const { return pool ? bytes : std::min(bytes, transparent); }

  void read_field(std::string_view line) {
    constexpr std::string_view kPageSize = "KernelPageSize:";
    for (const std::string_view name : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"}) {
      if (line.starts_with(name)) transparent += kib_of(line.substr(name.size()));
    }
    if (line.starts_with(kPageSize)) pool = kib_of(line.substr(kPageSize.size())) >= kHugeBytes;
  }
  static std::uint64_t kib_of(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return take_number(text, 10) * 1024;
  }
};

}  // namespace

std::string_view page_kind_name(PageKind kind) noexcept {
  switch (kind) {
    case PageKind::kSmall:
      return "small";
    case PageKind::kMixed:
      return "mixed";
    case PageKind::kHuge:
      return "huge";
  }
  return "unknown";
}

PageKind find_page_kind(std::string_view smaps, std::uintptr_t address,
                        std::size_t bytes) noexcept {
  std::uint64_t huge = 0;
  Overlap overlap;
  while (!smaps.empty()) {
    std::string_view line = smaps.substr(0, smaps.find('\n'));
    smaps.remove_prefix(std::min(line.size() + 1, smaps.size()));
    std::string_view rest = line;
    const std::uint64_t low = take_number(rest, 16);
    if (!rest.starts_with('-')) {  // no new mapping
      overlap.read_field(line);
      continue;
    }
    rest.remove_prefix(1);
    const std::uint64_t high = take_number(rest, 16);
    huge += overlap.huge();
    const std::uint64_t from = std::max<std::uint64_t>(low, address);
    const std::uint64_t to = std::min<std::uint64_t>(high, address + bytes);
    overlap = {.bytes = to > from ? to - from : 0};
  }
  huge += overlap.huge();
  if (huge == 0) return PageKind::kSmall;
  return huge >= bytes ? PageKind::kHuge : PageKind::kMixed;
}

Result<PageKind> page_kind_of(const void* address, std::size_t bytes) {
  IMEX_TRY(const std::string smaps, os::read_file("/proc/self/smaps", kSmapsLimitBytes));
  return find_page_kind(smaps, reinterpret_cast<std::uintptr_t>(address), bytes);
}

Result<void> check_pages(Pages wanted, PageKind found, std::string_view what) {
  if (wanted == Pages::kHuge && found != PageKind::kHuge) {
    return fail(Errc::kResourceExhausted,
                fmt::format("--pages huge: {} got {} pages", what, page_kind_name(found)),
                "raise vm.nr_hugepages, or measure with --pages auto");
  }
  if (wanted == Pages::kSmall && found != PageKind::kSmall) {
    return fail(Errc::kUnsupported,
                fmt::format("--pages small: {} got {} pages", what, page_kind_name(found)),
                "set vm.nr_hugepages to 0 meanwhile, or measure with --pages auto");
  }
  return {};
}

Result<PrivateMemory> PrivateMemory::create(std::size_t bytes, Pages pages) {
  const std::size_t whole = (bytes + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
  PrivateMemory memory;
  memory.reserved_bytes_ = whole + 3 * kHugeBytes;
  constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  void* const reserved = ::mmap(nullptr, memory.reserved_bytes_, PROT_NONE, kAnonymous, -1, 0);
  if (reserved == MAP_FAILED) return fail(system_error(errno, "reserve addresses for a vector"));
  memory.reserved_ = static_cast<std::byte*>(reserved);
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(reserved) + kHugeBytes;
  std::byte* const data = memory.reserved_ + kHugeBytes + (kHugeBytes - first % kHugeBytes);
  // The mapping is as long as asked for, so that what lies behind it faults.
  const std::size_t size = (bytes + os::page_bytes() - 1) / os::page_bytes() * os::page_bytes();
  const auto map = [&](std::size_t length, int flags) {
    return ::mmap(data, length, PROT_READ | PROT_WRITE, kAnonymous | MAP_FIXED | flags, -1, 0) !=
           MAP_FAILED;
  };
  const bool pool = pages == Pages::kHuge && map(whole, MAP_HUGETLB);
  const std::size_t length = pages == Pages::kHuge ? whole : size;
  if (!pool && !map(length, 0)) {
    return fail(system_error(errno, fmt::format("map a vector of {}", format_size(bytes))));
  }
  // Advice may be refused by a kernel without transparent huge pages; what came of it is looked up.
  if (!pool && pages == Pages::kHuge) ::madvise(data, length, MADV_HUGEPAGE);
  if (pages == Pages::kSmall) ::madvise(data, length, MADV_NOHUGEPAGE);
  std::memset(data, 0, length);
  memory.data_ = data;
  IMEX_TRY(const PageKind kind, page_kind_of(data, bytes));
  IMEX_CHECK_OK(check_pages(pages, kind, fmt::format("a vector of {}", format_size(bytes))));
  return memory;
}

PrivateMemory::PrivateMemory(PrivateMemory&& other) noexcept
    : reserved_(std::exchange(other.reserved_, nullptr)),
      reserved_bytes_(other.reserved_bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(reserved_, other.reserved_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  std::swap(data_, other.data_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
}

}  // namespace imex::bench
