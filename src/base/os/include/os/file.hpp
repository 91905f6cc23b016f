/// Files: whole reads with a limit, atomic replacement, directories of a daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace imex::os {

/// Never waits long: a pipe into which nobody writes for a second is an error, one that nobody has
/// open for writing is empty. Errors: kNotFound, kPermissionDenied, kResourceExhausted (over
/// `limit_bytes`; silent pipe).
[[nodiscard]] Result<std::string> read_file(const std::string& path,
                                            std::size_t limit_bytes = 16U << 20U);
/// Temporary file beside it, fsync, rename, fsync of the directory.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::span<const std::byte> bytes,
                                        std::uint32_t mode = 0600);
/// For writing at the end; made with exactly `mode` if missing, emptied if `truncate`. Of a pipe:
/// without blocking, and an error while nobody reads it.
[[nodiscard]] Result<UniqueFd> open_for_append(const std::string& path, bool truncate,
                                               std::uint32_t mode = 0600);
/// Writes all of `bytes`; after an error a part may have been written. `path` only for the message.
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes,
                                     const std::string& path);
/// What was written to `fd` is on the disk when this returns. `path` only for the message.
[[nodiscard]] Result<void> sync_file(int fd, const std::string& path);
/// Gives a file another name; an existing file of that name goes away in the same step.
[[nodiscard]] Result<void> rename_file(const std::string& from, const std::string& to);
/// Makes missing parents; `mode` for the last component, 0755 for the others. An existing directory
/// is fine.
[[nodiscard]] Result<void> make_directories(const std::string& path, std::uint32_t mode = 0700);
/// Errors: kPermissionDenied unless `path` is a directory of this user that nobody else may write
/// to: in any other, names and files may be a trap.
[[nodiscard]] Result<void> check_own_directory(const std::string& path);
/// Exclusive lock that the kernel drops when the process ends. Errors: kAlreadyExists names the
/// holder.
[[nodiscard]] Result<UniqueFd> lock_file(const std::string& path);
/// Whether some process holds the lock, the calling one included. A missing file: no.
[[nodiscard]] bool is_locked(const std::string& path);
/// A new file of `size_bytes` zeros, for reading and writing, whose pages are reserved: to touch
/// them through a mapping cannot fail later. Errors: kAlreadyExists, kResourceExhausted.
[[nodiscard]] Result<UniqueFd> create_file(const std::string& path, std::size_t size_bytes,
                                           std::uint32_t mode = 0600);
/// Missing is fine.
void remove_file(const std::string& path) noexcept;
/// Removes a directory tree; missing is fine.
[[nodiscard]] Result<void> remove_tree(const std::string& path);
/// A fresh directory under $TMPDIR or /tmp, mode 0700.
[[nodiscard]] Result<std::string> make_temporary_directory(const std::string& prefix);

}  // namespace imex::os
