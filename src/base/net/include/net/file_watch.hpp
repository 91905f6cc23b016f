/// Tells when a file changed, appeared or went, however it was written: in place, by rename over
/// it, through a symbolic link that is switched (Kubernetes' ..data), or as a single bind mount.
#pragma once

#include <functional>
#include <string>

#include "net/event_loop.hpp"
#include "os/fd.hpp"

namespace imex::net {

/// Watches one path by inotify. The callback comes on the loop, once for a batch of events; it
/// reads the file itself. The directory must exist; the file need not.
class FileWatch {
 public:
  [[nodiscard]] static Result<std::unique_ptr<FileWatch>> start(EventLoop& loop, std::string path,
                                                                std::function<void()> on_change);
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  FileWatch(EventLoop& loop, std::string path, os::UniqueFd inotify,
            std::function<void()> on_change);
  void watch_file();
  void read_events();

  std::string path_, name_;
  os::UniqueFd inotify_;
  int file_watch_ = -1;
  std::function<void()> on_change_;
  FdWatch readable_;
};

}  // namespace imex::net
