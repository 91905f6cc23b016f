/// Shared anonymous memory and mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "os/fd.hpp"

namespace imex::os {

enum class HugePages : std::uint8_t { kNone, kPool };

/// A memfd of `size_bytes` (whole pages of its kind), sealed against shrinking, growing and further
/// seals. Errors: kInvalidArgument (0, or not whole pages), kResourceExhausted (memory, or no huge
/// page of 2 MiB free in the pool).
[[nodiscard]] Result<UniqueFd> make_memfd(const std::string& name, std::size_t size_bytes,
                                          HugePages huge = HugePages::kNone);

struct FileFacts {
  std::uint64_t size_bytes = 0;
  bool sealed_shrink = false;  ///< is a memfd that nobody can truncate: safe to map and touch
  std::uint64_t inode = 0;
};
[[nodiscard]] Result<FileFacts> file_facts(int fd);

/// Owns a range of address space.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { reset(); }

  enum class Access : std::uint8_t { kRead, kReadWrite };
  struct Options {
    Access access = Access::kReadWrite;
    bool populate = false;         ///< fault all pages in now
    std::size_t alignment = 4096;  ///< of the address; a power of two
    bool advise_huge = false;      ///< ask for transparent huge pages
  };
  /// Maps [0, size_bytes) of `fd`, shared. Errors: kInvalidArgument (the file is smaller), those of
  /// mmap.
  [[nodiscard]] static Result<Mapping> map(int fd, std::size_t size_bytes, const Options& options);
  [[nodiscard]] static Result<Mapping> map(int fd, std::size_t size_bytes) {
    return map(fd, size_bytes, Options{});
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// Replaces the pages by inaccessible ones; the address range stays reserved. From now on every
  /// access faults. Never fails for a range that is mapped.
  void make_inaccessible() noexcept;
  /// Puts `fd`'s pages at the same address, in one step.
  [[nodiscard]] Result<void> replace(int fd);
  void reset() noexcept;

 private:
  Mapping(std::byte* data, std::size_t size, std::size_t mapped_bytes, Access access) noexcept
      : data_(data), size_(size), mapped_bytes_(mapped_bytes), access_(access) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_bytes_ = 0;  ///< size_ in whole pages of the file
  Access access_ = Access::kReadWrite;
};

/// The whole of an ordinary file, for reading. The pages are the page cache's: nothing is copied.
/// Somebody who truncates the file later turns reads beyond its new end into SIGBUS.
/// Errors: kNotFound, kPermissionDenied, kInvalidArgument (not an ordinary file, or empty).
[[nodiscard]] Result<Mapping> map_file(const std::string& path);

[[nodiscard]] std::size_t page_bytes() noexcept;

}  // namespace imex::os
