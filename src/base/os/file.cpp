#include "os/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "syscall.hpp"

namespace imex::os {

namespace {

std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Makes a rename or a new name in the directory last through a power cut.
Result<void> sync_directory(const std::string& path) {
  const UniqueFd directory(
      retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!directory) return fail(system_error(errno, fmt::format("open directory '{}'", path)));
  // EINVAL: the file system has nothing to sync (some FUSE mounts).
  if (retry([&] { return ::fsync(directory.get()); }) != 0 && errno != EINVAL) {
    return fail(system_error(errno, fmt::format("sync directory '{}'", path)));
  }
  return {};
}

Result<void> make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) {
    // The umask may have taken bits away. Only our own directory is touched.
    if (::chmod(path.c_str(), mode) == 0) return {};
    return fail(system_error(errno, fmt::format("set the mode of directory '{}'", path)));
  }
  const int error = errno;
  struct stat facts{};
  // An existing directory may answer EEXIST, or EROFS and EACCES where we could not have made it.
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return {};
    return fail(system_error(ENOTDIR, fmt::format("make directory '{}'", path)));
  }
  return fail(system_error(error, fmt::format("make directory '{}'", path)));
}

/// Pid that the holder wrote into its lock file, for messages only.
std::string holder_of(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = retry([&] { return ::pread(fd, text.data(), text.size(), 0); });
  std::string pid;
  for (ssize_t i = 0; i < got; ++i) {
    const char c = text[static_cast<std::size_t>(i)];
    if (c < '0' || c > '9') break;
    pid += c;
  }
  return pid.empty() ? "another process" : "process " + pid;
}

Result<void> write_pid(int fd, const std::string& path) {
  const std::string text = fmt::format("{}\n", ::getpid());
  if (retry([&] { return ::ftruncate(fd, 0); }) != 0) {
    return fail(system_error(errno, fmt::format("empty lock '{}'", path)));
  }
  return write_all(fd, std::as_bytes(std::span(text)), path);
}

/// Whether the name still leads to the open file: whoever held the lock may have removed it.
bool still_named(int fd, const std::string& path) {
  struct stat open_file{};
  struct stat named{};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

/// Something to read from a pipe, or its end; false after a second in which nothing came.
bool wait_for_writer(int fd) {
  constexpr int kPatienceMs = 1000;
  pollfd item{fd, POLLIN, 0};
  const bool came = retry([&] { return ::poll(&item, 1, kPatienceMs); }) > 0;
  if (!came) errno = EAGAIN;
  return came;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit_bytes) {
  // A pipe must not hold up its reader: with nobody at the other end it is empty.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const UniqueFd fd(retry([&] { return ::open(path.c_str(), kFlags); }));
  if (!fd) return fail(system_error(errno, fmt::format("open '{}'", path)));
  constexpr std::size_t kStepBytes = 64U << 10U;
  std::string text;
  for (;;) {
    // One byte over the limit is read to know that there is one. /proc files have no size to ask
    // for.
    const std::size_t step_bytes = std::min(kStepBytes, limit_bytes - text.size() + 1);
    const std::size_t old_bytes = text.size();
    text.resize(old_bytes + step_bytes);
    const ssize_t got =
        retry([&] { return ::read(fd.get(), text.data() + old_bytes, step_bytes); });
    if (got < 0 && errno == EAGAIN && wait_for_writer(fd.get())) {
      text.resize(old_bytes);
      continue;
    }
    if (got < 0) return fail(system_error(errno, fmt::format("read '{}'", path)));
    text.resize(old_bytes + static_cast<std::size_t>(got));
    if (got == 0) return text;
    if (text.size() > limit_bytes) {
      return fail(Errc::kResourceExhausted,
                  fmt::format("'{}' is over {} bytes", path, limit_bytes));
    }
  }
}

Result<void> replace_file(const std::string& path, std::span<const std::byte> bytes,
                          std::uint32_t mode) {
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600 until the mode is set
  if (!fd)
    return fail(system_error(errno, fmt::format("create a temporary file beside '{}'", path)));
  OnExit remove([&] { ::unlink(temporary.c_str()); });
  IMEX_CHECK_OK(write_all(fd.get(), bytes, temporary));
  if (::fchmod(fd.get(), mode) != 0) {
    return fail(system_error(errno, fmt::format("set the mode of '{}'", temporary)));
  }
  IMEX_CHECK_OK(sync_file(fd.get(), temporary));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail(system_error(errno, fmt::format("replace '{}'", path)));
  }
  remove.dismiss();
  return sync_directory(parent_of(path));
}

Result<void> sync_file(int fd, const std::string& path) {
  if (retry([&] { return ::fsync(fd); }) == 0) return {};
  return fail(system_error(errno, fmt::format("sync '{}'", path)));
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (written < 0) return fail(system_error(errno, fmt::format("write '{}'", path)));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<UniqueFd> open_for_append(const std::string& path, bool truncate, std::uint32_t mode) {
  // Nothing to a file; a pipe without a reader is an error then, and a full one loses lines.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  // Made apart from opened: only a file of our own gets its mode set against the umask.
  UniqueFd fd(retry([&] { return ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, mode); }));
  if (fd) {
    if (::fchmod(fd.get(), mode) == 0) return fd;
    return fail(system_error(errno, fmt::format("set the mode of '{}'", path)));
  }
  if (errno == EEXIST) {
    fd =
        UniqueFd(retry([&] { return ::open(path.c_str(), truncate ? kFlags | O_TRUNC : kFlags); }));
  }
  if (!fd) return fail(system_error(errno, fmt::format("open '{}' for writing", path)));
  return fd;
}

Result<UniqueFd> create_file(const std::string& path, std::size_t size_bytes, std::uint32_t mode) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(retry([&] { return ::open(path.c_str(), kFlags, mode); }));
  if (!fd) return fail(system_error(errno, fmt::format("create '{}'", path)));
  const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(size_bytes));
  if (error == 0) return fd;
  remove_file(path);
  return fail(system_error(error, fmt::format("reserve {} bytes for '{}'", size_bytes, path)));
}

void remove_file(const std::string& path) noexcept { ::unlink(path.c_str()); }

Result<void> rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return fail(system_error(errno, fmt::format("rename '{}' to '{}'", from, to)));
}

Result<void> make_directories(const std::string& path, std::uint32_t mode) {
  if (path.empty()) return fail(Errc::kInvalidArgument, "make directory '': empty path");
  const auto last = path.find_last_not_of('/');
  if (last == std::string::npos) return {};  // the root
  const std::string clean = path.substr(0, last + 1);
  for (auto slash = clean.find('/', 1); slash != std::string::npos;
       slash = clean.find('/', slash + 1)) {
    IMEX_CHECK_OK(make_directory(clean.substr(0, slash), 0755));
  }
  return make_directory(clean, static_cast<mode_t>(mode));
}

Result<void> check_own_directory(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0)
    return fail(system_error(errno, "look at '" + path + "'"));
  if (S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & 022U) == 0)
    return {};
  return fail(Errc::kPermissionDenied,
              fmt::format("'{}': a directory of user {} that others cannot write to wanted, mode "
                          "{:o} of user {} found",
                          path, ::geteuid(), facts.st_mode & 07777U, facts.st_uid));
}

bool is_locked(const std::string& path) {
  const UniqueFd fd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW); }));
  return fd && retry([&] { return ::flock(fd.get(), LOCK_SH | LOCK_NB); }) != 0 &&
         errno == EWOULDBLOCK;
}

Result<UniqueFd> lock_file(const std::string& path) {
  constexpr int kTries =
      16;                    // each but the last lost a race against a holder that removed its file
  constexpr int kLooks = 8;  // is_locked() of another process has it for microseconds
  for (int i = 0; i < kTries; ++i) {
    UniqueFd fd(retry(
        [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); }));
    if (!fd) return fail(system_error(errno, fmt::format("open lock '{}'", path)));
    if (retry([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return fail(system_error(errno, fmt::format("lock '{}'", path)));
      if (i < kLooks) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      return fail(Errc::kAlreadyExists,
                  fmt::format("lock '{}' is held by {}", path, holder_of(fd.get())));
    }
    if (!still_named(fd.get(), path)) continue;
    IMEX_CHECK_OK(write_pid(fd.get(), path));
    return fd;
  }
  return fail(Errc::kUnavailable,
              fmt::format("lock '{}' was removed {} times while taking it", path, kTries));
}

Result<void> remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return fail(system_error(error.value(), fmt::format("remove '{}'", path)));
  return {};
}

Result<std::string> make_temporary_directory(const std::string& prefix) {
  const char* configured = std::getenv("TMPDIR");
  const std::string parent = configured != nullptr && *configured != '\0' ? configured : "/tmp";
  std::string path = fmt::format("{}/{}-XXXXXX", parent, prefix);
  if (::mkdtemp(path.data()) == nullptr) {
    return fail(system_error(errno, fmt::format("make a temporary directory in '{}'", parent)));
  }
  return path;
}

}  // namespace imex::os
