#include "file_sink.hpp"

#include <span>

#include <fmt/format.h>
#include <spdlog/common.h>

#include "os/file.hpp"
#include "os/memory.hpp"

namespace imex::log {

Result<std::shared_ptr<FileSink>> FileSink::open(Options options) {
  IMEX_TRY(os::UniqueFd fd, os::open_for_append(options.path, !options.append, kMode));
  IMEX_TRY(const os::FileFacts facts, os::file_facts(fd.get()));
  return std::shared_ptr<FileSink>(
      new FileSink(std::move(options), std::move(fd), facts.size_bytes));
}

Result<void> FileSink::reopen() {
  IMEX_TRY(os::UniqueFd fd, os::open_for_append(options_.path, false, kMode));
  IMEX_TRY(const os::FileFacts facts, os::file_facts(fd.get()));
  const std::lock_guard<std::mutex> lock(mutex_);
  fd_ = std::move(fd);
  bytes_ = facts.size_bytes;
  return {};
}

void FileSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  const bool over = options_.bytes_max != 0 && bytes_ + line.size() > options_.bytes_max;
  if (over && options_.rotated_count == 0) throw spdlog::spdlog_ex("size limit reached");
  if (over && bytes_ != 0) rotate();
  const auto done =
      os::write_all(fd_.get(), std::as_bytes(std::span(line.data(), line.size())), options_.path);
  if (!done) throw spdlog::spdlog_ex(done.error().to_string());
  bytes_ += line.size();
}

void FileSink::rotate() {
  const auto name = [this](std::uint32_t index) {
    return index == 0 ? options_.path : fmt::format("{}.{}", options_.path, index);
  };
  for (std::uint32_t index = options_.rotated_count; index > 0; --index) {
    const auto renamed = os::rename_file(name(index - 1), name(index));
    if (!renamed && renamed.error().code != Errc::kNotFound) {
      throw spdlog::spdlog_ex(renamed.error().to_string());
    }
  }
  auto fresh = os::open_for_append(options_.path, false, kMode);
  if (!fresh) throw spdlog::spdlog_ex(fresh.error().to_string());
  fd_ = std::move(*fresh);
  bytes_ = 0;
}

}  // namespace imex::log
