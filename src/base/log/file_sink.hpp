/// Log file with a size limit; private to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <spdlog/sinks/base_sink.h>

#include "os/fd.hpp"

namespace imex::log {

/// At the limit either rotates (FILE -> FILE.1 -> ... -> FILE.N, the last goes away) or stops. One
/// write call per line: after a crash every line but the last is whole.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  struct Options {
    std::string path;
    bool append = true;
    std::uint64_t bytes_max = 0;  ///< 0: no limit
    std::uint32_t rotated_count = 0;
  };
  static constexpr std::uint32_t kMode = 0644;

  [[nodiscard]] static Result<std::shared_ptr<FileSink>> open(Options options);
  [[nodiscard]] Result<void> reopen();

 private:
  FileSink(Options options, os::UniqueFd fd, std::uint64_t bytes)
      : options_(std::move(options)), fd_(std::move(fd)), bytes_(bytes) {}
  // Both throw spdlog_ex, which the logger above counts.
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}
  void rotate();

  const Options options_;
  // Guarded by the base class's mutex_.
  os::UniqueFd fd_;
  std::uint64_t bytes_;
};

}  // namespace imex::log
