#include "os/memory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/units.hpp"
#include "syscall.hpp"

// Headers of older C libraries lack these; the numbers are kernel ABI.
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26U)
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace imex::os {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

/// Takes the pages out of the pool now: a mapping reserves them for as long as the file lives, also
/// after it is unmapped, and touches none. Without it the first touch would end in SIGBUS.
Result<void> reserve_huge_pages(int fd, const std::string& name, std::size_t size_bytes) {
  void* address = ::mmap(nullptr, size_bytes, PROT_NONE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    return fail(Error{Errc::kResourceExhausted,
                      system_error(error, fmt::format("reserve {} of huge pages for '{}'",
                                                      format_size(size_bytes), name))
                          .message,
                      "raise vm.nr_hugepages or use ordinary pages"});
  }
  ::munmap(address, size_bytes);
  return {};
}

/// Page size of the file: 2 MiB for one of the huge-page pool.
Result<std::size_t> file_page_bytes(int fd) {
  struct statfs facts{};
  if (retry([&] { return ::fstatfs(fd, &facts); }) != 0) {
    return fail(system_error(errno, fmt::format("file system of descriptor {}", fd)));
  }
  if (facts.f_type == HUGETLBFS_MAGIC) return static_cast<std::size_t>(facts.f_bsize);
  return page_bytes();
}

/// The file must hold all the bytes: touching a page beyond its end is a SIGBUS.
Result<void> check_file_size(int fd, std::size_t size_bytes) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) {
    return fail(system_error(errno, fmt::format("size of descriptor {}", fd)));
  }
  if (S_ISREG(facts.st_mode) && static_cast<std::uint64_t>(facts.st_size) < size_bytes) {
    return fail(Errc::kInvalidArgument,
                fmt::format("map {} of a file of {}", format_size(size_bytes),
                            format_size(static_cast<std::uint64_t>(facts.st_size))));
  }
  return {};
}

int protection(Mapping::Access access) noexcept {
  return access == Mapping::Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
}

/// An address range that nothing else will get, aligned; the surplus is given back.
Result<std::byte*> reserve_range(std::size_t size_bytes, std::size_t alignment) {
  const std::size_t reserved_bytes = size_bytes + alignment;
  void* start = ::mmap(nullptr, reserved_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return fail(system_error(
        errno, fmt::format("reserve {} of address space", format_size(reserved_bytes))));
  }
  auto* first = static_cast<std::byte*>(start);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(first) & (alignment - 1);
  const std::size_t head = misaligned == 0 ? 0 : alignment - misaligned;
  if (head != 0) ::munmap(first, head);
  ::munmap(first + head + size_bytes, alignment - head);
  return first + head;
}

Result<void> populate(std::byte* data, std::size_t size_bytes, int fd, int access) {
  const int advice = (access & PROT_WRITE) != 0 ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (retry([&] { return ::madvise(data, size_bytes, advice); }) == 0) return {};
  int error = errno;
  if (error == EINVAL) {  // before Linux 5.14; errors there show at the first touch
    void* again = ::mmap(data, size_bytes, access, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0);
    if (again != MAP_FAILED) return {};
    error = errno;
  }
  // EFAULT stands for the SIGBUS that a touch would have raised: no page to be had.
  return fail(system_error(error == EFAULT ? ENOMEM : error,
                           fmt::format("populate a mapping of {}", format_size(size_bytes))));
}

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

Result<UniqueFd> make_memfd(const std::string& name, std::size_t size_bytes, HugePages huge) {
  const std::size_t page = huge == HugePages::kPool ? kHugePageBytes : page_bytes();
  if (size_bytes == 0 || size_bytes % page != 0 ||
      size_bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max())) {
    return fail(Errc::kInvalidArgument,
                fmt::format("memory '{}' of {} bytes: not a whole number of {} pages", name,
                            size_bytes, format_size(page)));
  }
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (huge == HugePages::kPool) flags |= MFD_HUGETLB | MFD_HUGE_2MB;
  UniqueFd fd(::memfd_create(name.c_str(), flags));
  if (!fd) return fail(system_error(errno, fmt::format("create memory '{}'", name)));
  if (retry([&] { return ::ftruncate(fd.get(), static_cast<off_t>(size_bytes)); }) != 0) {
    return fail(system_error(errno, fmt::format("size memory '{}' to {} bytes", name, size_bytes)));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(system_error(errno, fmt::format("seal memory '{}'", name)));
  }
  if (huge == HugePages::kPool) IMEX_CHECK_OK(reserve_huge_pages(fd.get(), name, size_bytes));
  return fd;
}

Result<FileFacts> file_facts(int fd) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) {
    return fail(system_error(errno, fmt::format("facts of descriptor {}", fd)));
  }
  FileFacts result;
  result.size_bytes = S_ISREG(facts.st_mode) ? static_cast<std::uint64_t>(facts.st_size) : 0;
  result.inode = facts.st_ino;
  const int seals = ::fcntl(fd, F_GET_SEALS);  // -1 for whatever is no memory file
  result.sealed_shrink = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  return result;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      access_(other.access_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
    access_ = other.access_;
  }
  return *this;
}

Result<Mapping> Mapping::map(int fd, std::size_t size_bytes, const Options& options) {
  constexpr std::size_t kSizeMax = std::numeric_limits<std::size_t>::max() / 4;
  if (size_bytes == 0 || size_bytes > kSizeMax || !std::has_single_bit(options.alignment) ||
      options.alignment > kSizeMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("map {} bytes aligned to {}: the alignment must be a "
                            "power of two, the size above 0",
                            size_bytes, options.alignment));
  }
  IMEX_CHECK_OK(check_file_size(fd, size_bytes));
  IMEX_TRY(const std::size_t page, file_page_bytes(fd));
  const std::size_t whole_bytes = (size_bytes + page - 1) / page * page;
  // The kernel aligns to the file's pages by itself; reserving first would cost three calls more.
  std::byte* wanted = nullptr;
  if (options.alignment > page) {
    IMEX_TRY(wanted, reserve_range(whole_bytes, options.alignment));
  }
  const int access = protection(options.access);
  void* const range = ::mmap(wanted, whole_bytes, access,
                             wanted == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED, fd, 0);
  if (range == MAP_FAILED) {
    const int error = errno;
    if (wanted != nullptr) ::munmap(wanted, whole_bytes);
    return fail(
        system_error(error, fmt::format("map {} of descriptor {}", format_size(size_bytes), fd)));
  }
  Mapping mapping(static_cast<std::byte*>(range), size_bytes, whole_bytes, options.access);
  // Advice only: kernels without transparent huge pages refuse it, and small pages do as well.
  if (options.advise_huge) ::madvise(mapping.data(), whole_bytes, MADV_HUGEPAGE);
  if (options.populate) IMEX_CHECK_OK(populate(mapping.data(), whole_bytes, fd, access));
  return mapping;
}

void Mapping::make_inaccessible() noexcept {
  if (data_ == nullptr) return;
  const void* done = ::mmap(data_, mapped_bytes_, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  IMEX_ASSERT(done != MAP_FAILED, "replacing a whole mapping needs no memory and no new range");
}

Result<void> Mapping::replace(int fd) {
  IMEX_ASSERT(data_ != nullptr, "replace() needs a mapping");
  IMEX_CHECK_OK(check_file_size(fd, size_));
  IMEX_TRY(const std::size_t page, file_page_bytes(fd));
  if (mapped_bytes_ % page != 0 || reinterpret_cast<std::uintptr_t>(data_) % page != 0) {
    return fail(Errc::kInvalidArgument,
                fmt::format("replace a mapping of {} by pages of {}: address or size do not fit",
                            format_size(size_), format_size(page)));
  }
  if (::mmap(data_, mapped_bytes_, protection(access_), MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED) {
    return fail(system_error(errno, fmt::format("replace a mapping of {}", format_size(size_))));
  }
  return {};
}

void Mapping::reset() noexcept {
  if (data_ == nullptr) return;
  ::munmap(std::exchange(data_, nullptr), std::exchange(mapped_bytes_, 0));
  size_ = 0;
}

Result<Mapping> map_file(const std::string& path) {
  // Without O_NONBLOCK the open of a pipe would wait for a writer.
  const UniqueFd fd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd) return fail(system_error(errno, fmt::format("open '{}'", path)));
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) {
    return fail(system_error(errno, fmt::format("size of '{}'", path)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is not an ordinary file", path));
  }
  if (facts.st_size == 0) return fail(Errc::kInvalidArgument, fmt::format("'{}' is empty", path));
  auto map = Mapping::map(fd.get(), static_cast<std::size_t>(facts.st_size),
                          {.access = Mapping::Access::kRead});
  if (!map) return fail(std::move(map).error().context(fmt::format("map '{}'", path)));
  return map;
}

}  // namespace imex::os
