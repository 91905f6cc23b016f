#include "record_folder.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "os/file.hpp"

namespace imex::bench {

namespace {

/// Until every process that holds the other end is gone.
[[noreturn]] void keep(int end, const std::string& folder) {
  ::setsid();  // Ctrl-C is for the others
  char byte = 0;
  while (::read(end, &byte, 1) < 0 && errno == EINTR) {
  }
  static_cast<void>(os::remove_tree(folder));
  ::_exit(0);
}

}  // namespace

Result<RecordFolder> RecordFolder::create() {
  IMEX_TRY(const std::string folder, os::make_temporary_directory("imex-bench-"));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(system_error(errno, "make a pipe"));
  const os::UniqueFd read_end(ends[0]);
  os::UniqueFd write_end(ends[1]);
  std::fflush(nullptr);  // else the child would print what the parent has buffered
  const std::int32_t keeper = ::fork();
  if (keeper < 0) return fail(system_error(errno, "fork a process of the benchmark"));
  if (keeper == 0) {
    write_end.reset();
    keep(read_end.get(), folder);
  }
  ::setenv("IMEX_RECORD_DIR", folder.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  return RecordFolder(std::move(write_end), keeper);
}

RecordFolder::RecordFolder(os::UniqueFd held, std::int32_t keeper) noexcept
    : held_(std::move(held)), keeper_(keeper) {}

RecordFolder::RecordFolder(RecordFolder&& other) noexcept
    : held_(std::move(other.held_)), keeper_(std::exchange(other.keeper_, 0)) {}

RecordFolder::~RecordFolder() {
  if (keeper_ == 0) return;
  held_.reset();
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace imex::bench
