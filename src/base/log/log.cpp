#include "log/log.hpp"

#include <syslog.h>

#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>

#include "base/mutex.hpp"
#include "file_sink.hpp"
#include "log/rate_limiter.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "record.hpp"
#include "ring.hpp"

namespace imex::log {

namespace {

constexpr Level kRingThreshold = Level::kDebug;

spdlog::level::level_enum spdlog_level(Level level) noexcept {
  switch (level) {
    case Level::kCritical:
      return spdlog::level::critical;
    case Level::kError:
      return spdlog::level::err;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kTrace:
    case Level::kOff:
      break;
  }
  return spdlog::level::trace;
}

spdlog::sink_ptr stderr_sink() { return std::make_shared<spdlog::sinks::stderr_sink_mt>(); }

}  // namespace

struct Logger::State {
  explicit State(Options given)
      : options(std::move(given)),
        threshold(options.threshold),
        limiter(options.repeat_interval),
        ring(options.ring_bytes) {
    if (!options.wall_clock) options.wall_clock = std::chrono::system_clock::now;
    if (!options.clock) options.clock = os::now;
  }

  /// The place for the lines; a refused file is remembered in `refusal`.
  spdlog::sink_ptr make_sink() {
    if (options.syslog) {
      const int flags = LOG_PID | (options.syslog_to_stderr ? LOG_PERROR : 0);
      return std::make_shared<spdlog::sinks::syslog_sink_mt>(options.syslog_name, flags, LOG_DAEMON,
                                                             false);
    }
    if (options.file.empty()) return stderr_sink();
    auto opened = FileSink::open(
        {options.file, options.append, options.file_bytes_max, options.rotated_count});
    if (!opened) {
      refusal = std::move(opened).error();
      return stderr_sink();
    }
    file = std::move(*opened);
    return file;
  }

  void make_logger() {
    logger = std::make_unique<spdlog::logger>("imex", make_sink());
    logger->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
    logger->set_level(spdlog::level::trace);  // what goes out is decided by `threshold`
    logger->set_error_handler(
        [this](const std::string&) { lost.fetch_add(1, std::memory_order_relaxed); });
  }

  // Constant after construction.
  Options options;
  std::shared_ptr<FileSink> file;  ///< if the place is a file
  Error refusal;                   ///< with a message if the file was refused
  // Self-synchronised. Nothing is published through the two atomics.
  std::unique_ptr<spdlog::logger> logger;
  std::atomic<Level> threshold;
  std::atomic<std::uint64_t> lost{0};
  // Guarded.
  Mutex limiter_mutex;
  RateLimiter limiter IMEX_GUARDED_BY(limiter_mutex);
  mutable Mutex ring_mutex;
  Ring ring IMEX_GUARDED_BY(ring_mutex);
};

Logger::Logger(Options options) : state_(std::make_unique<State>(std::move(options))) {
  state_->make_logger();
  if (fell_back()) {
    const std::string& file = state_->options.file;
    warn("cannot open the log file", {{"file", file}, {"error", state_->refusal.message}});
    warn("logging to standard error instead");
  }
  if (!state_->options.headline || threshold() == Level::kOff) return;
  const auto time = state_->options.wall_clock();
  const std::string line = headline(time);
  const bool json = state_->options.format == Format::kJson && !state_->options.syslog;
  state_->logger->log(spdlog::level::info,
                      json ? render_json({time, Level::kInfo, os::thread_id(), line}) : line);
}

Logger::~Logger() {
  std::vector<RateLimiter::Suppressed> held;
  {
    const MutexLock lock(state_->limiter_mutex);
    held = state_->limiter.drain();
  }
  write_suppressed(held);
}

void Logger::write_suppressed(std::span<const RateLimiter::Suppressed> held) {
  for (const auto& [key, count] : held) info(fmt::format("{} more suppressed: {}", count, key));
}

void Logger::write(Level level, std::string_view text, std::span<const Field> fields) {
  const bool to_sink = level <= threshold();
  const bool to_ring = level <= kRingThreshold && state_->options.ring_bytes != 0;
  if (level == Level::kOff || (!to_sink && !to_ring)) return;
  const Record record{state_->options.wall_clock(), level, os::thread_id(), text, fields};
  if (to_sink) {
    const Options& options = state_->options;
    const std::string line = options.syslog                    ? render_plain(record)
                             : options.format == Format::kJson ? render_json(record)
                                                               : render_text(record);
    state_->logger->log(spdlog_level(level), line);
  }
  if (to_ring) {
    std::string line = render_text(record);
    const MutexLock lock(state_->ring_mutex);
    state_->ring.push(std::move(line));
  }
}

void Logger::limited(Level level, std::string_view text, Fields fields) {
  if (!enabled(level)) return;
  const Time now = state_->options.clock();
  bool admitted = false;
  std::vector<RateLimiter::Suppressed> held;
  {
    const MutexLock lock(state_->limiter_mutex);
    held = state_->limiter.expired(now);
    admitted = state_->limiter.admit(text, now);
  }
  write_suppressed(held);
  if (admitted) log(level, text, fields);
}

void Logger::report_suppressed() {
  const Time now = state_->options.clock();
  std::vector<RateLimiter::Suppressed> held;
  {
    const MutexLock lock(state_->limiter_mutex);
    held = state_->limiter.expired(now);
  }
  write_suppressed(held);
}

bool Logger::enabled(Level level) const noexcept {
  if (level == Level::kOff) return false;
  return level <= threshold() || (level <= kRingThreshold && state_->options.ring_bytes != 0);
}

void Logger::set_threshold(Level level) noexcept {
  state_->threshold.store(level, std::memory_order_relaxed);
}

Level Logger::threshold() const noexcept {
  return state_->threshold.load(std::memory_order_relaxed);
}

void Logger::reopen() {
  if (!state_->file) return;
  // The old file stays open, so the warning still goes somewhere.
  if (const auto done = state_->file->reopen(); !done) {
    warn("cannot open the log file anew", {{"error", done.error().message}});
  }
}

std::string Logger::ring() const {
  const MutexLock lock(state_->ring_mutex);
  return state_->ring.text();
}

Result<void> Logger::dump_ring(const std::string& path) const {
  const std::string text = ring();
  return os::replace_file(path, std::as_bytes(std::span(text)), FileSink::kMode);
}

std::uint64_t Logger::lost_count() const noexcept {
  return state_->lost.load(std::memory_order_relaxed);
}

bool Logger::fell_back() const noexcept { return !state_->refusal.message.empty(); }

}  // namespace imex::log
