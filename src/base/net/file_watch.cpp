#include "net/file_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace imex::net {

namespace {

constexpr std::uint32_t kDirectoryEvents =
    IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
/// Of the file itself: a bind mount of a single file has its own directory elsewhere.
constexpr std::uint32_t kFileEvents = IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

std::pair<std::string, std::string> split_path(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

Result<std::unique_ptr<FileWatch>> FileWatch::start(EventLoop& loop, std::string path,
                                                    std::function<void()> on_change) {
  os::UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify) return fail(system_error(errno, "watch " + path));
  const std::string directory = split_path(path).first;
  if (::inotify_add_watch(inotify.get(), directory.c_str(), kDirectoryEvents) < 0) {
    return fail(system_error(errno, "watch directory " + directory));
  }
  return std::unique_ptr<FileWatch>(
      new FileWatch(loop, std::move(path), std::move(inotify), std::move(on_change)));
}

FileWatch::FileWatch(EventLoop& loop, std::string path, os::UniqueFd inotify,
                     std::function<void()> on_change)
    : path_(std::move(path)),
      name_(split_path(path_).second),
      inotify_(std::move(inotify)),
      on_change_(std::move(on_change)),
      readable_(loop, inotify_.get()) {
  watch_file();
  readable_.on_readable([this] { read_events(); });
}

void FileWatch::watch_file() {
  // A missing file is watched through its directory until it is there.
  file_watch_ = ::inotify_add_watch(inotify_.get(), path_.c_str(), kFileEvents);
}

void FileWatch::read_events() {
  alignas(inotify_event) std::array<char, 4096> buffer;
  const auto bytes = ::read(inotify_.get(), buffer.data(), buffer.size());
  if (bytes <= 0) return;
  bool changed = false;
  bool replaced = false;
  for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(bytes);) {
    inotify_event event;
    std::memcpy(&event, buffer.data() + at, sizeof event);
    const char* name = event.len == 0 ? "" : buffer.data() + at + sizeof event;
    at += sizeof event + event.len;
    const bool overflow = (event.mask & IN_Q_OVERFLOW) != 0;
    const bool of_file = event.wd == file_watch_ && (event.mask & IN_IGNORED) == 0;
    const bool of_name = event.len != 0 && (name_ == name || std::strcmp(name, "..data") == 0);
    changed = changed || overflow || of_file || of_name;
    replaced = replaced || overflow || of_name || (event.mask & (IN_ATTRIB | IN_MOVE_SELF)) != 0;
  }
  if (replaced) watch_file();
  if (changed) on_change_();
}

}  // namespace imex::net
