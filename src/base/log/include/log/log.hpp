/// Logging: a text that a person can search for, plus fields, to one place.
///
///     log.info("node joined", {{"node", 3}, {"address", address}});
///     // [Mar 25 2025 10:41:54] [INFO] [tid 38] node joined node=3 address=10.0.0.3
///
/// Levels by volume: critical: the process ends; error: an operator acts; warn: we coped; info: per
/// life-cycle step; debug: per object; trace: per message. Text and fields may hold bytes from
/// outside: control characters are escaped, so that one call is one line.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.hpp"
#include "base/time.hpp"
#include "log/rate_limiter.hpp"
#include "log/secret.hpp"

namespace imex::log {

/// The numbers are those of LOG_LEVEL (imex-service section 4), continued downwards.
enum class Level : std::uint8_t { kOff = 0, kCritical, kError, kWarn, kInfo, kDebug, kTrace };

/// "error", "info", ...; as in JSON lines.
[[nodiscard]] std::string_view level_name(Level level) noexcept;
/// 0 to 6. Errors: kInvalidArgument.
[[nodiscard]] Result<Level> level_from_number(std::int64_t number);

/// A key and a value. The key must be a literal or outlive the call.
class Field {
 public:
  using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

  Field(std::string_view key, bool value) : key_(key), value_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Field(std::string_view key, T value) : key_(key), value_(widen(value)) {}
  Field(std::string_view key, double value) : key_(key), value_(value) {}
  Field(std::string_view key, std::string value) : key_(key), value_(std::move(value)) {}
  Field(std::string_view key, std::string_view value) : key_(key), value_(std::string(value)) {}
  Field(std::string_view key, const char* value) : key_(key), value_(std::string(value)) {}
  Field(std::string_view key, const Secret& /*secret*/) : key_(key), value_(std::string("***")) {}

  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] const Value& value() const noexcept { return value_; }

 private:
  template <std::integral T>
  static auto widen(T value) noexcept {
    if constexpr (std::signed_integral<T>)
      return static_cast<std::int64_t>(value);
    else
      return static_cast<std::uint64_t>(value);
  }

  std::string_view key_;
  Value value_;
};
using Fields = std::initializer_list<Field>;

enum class Format : std::uint8_t { kText, kJson };

struct Options {
  Level threshold = Level::kInfo;
  Format format = Format::kText;
  std::string file;                          ///< empty: standard error
  bool append = true;                        ///< false: an existing file is emptied at the start
  std::uint64_t file_bytes_max = 1U << 30U;  ///< 0: no limit
  std::uint32_t rotated_count = 10;  ///< files kept as FILE.1 .. FILE.N; 0: stop at the limit
  bool syslog = false;               ///< instead of the file
  std::string syslog_name = "nvidia-imex";
  bool syslog_to_stderr = false;       ///< what goes to syslog is printed as well
  bool headline = true;                ///< "IMEX Log initializing at: ..."
  std::size_t ring_bytes = 1U << 20U;  ///< 0: no ring
  Nanos repeat_interval = std::chrono::seconds(30);

  // Replaced in tests.
  std::function<std::chrono::system_clock::time_point()> wall_clock{};
  std::function<Time()> clock{};
};

/// Writes lines to one place, and keeps the latest down to debug in memory. Thread-safe; a call
/// returns once the line was handed to the kernel. Nothing that goes wrong with the place reaches
/// the caller: lines that could not be written are counted.
class Logger {
 public:
  /// Never fails: with a file that cannot be opened it goes on with standard error and says so
  /// there.
  explicit Logger(Options options);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  void critical(std::string_view text, Fields fields = {}) { log(Level::kCritical, text, fields); }
  void error(std::string_view text, Fields fields = {}) { log(Level::kError, text, fields); }
  void warn(std::string_view text, Fields fields = {}) { log(Level::kWarn, text, fields); }
  void info(std::string_view text, Fields fields = {}) { log(Level::kInfo, text, fields); }
  void debug(std::string_view text, Fields fields = {}) { log(Level::kDebug, text, fields); }
  void trace(std::string_view text, Fields fields = {}) { log(Level::kTrace, text, fields); }
  void log(Level level, std::string_view text, Fields fields = {}) {
    write(level, text, std::span(fields.begin(), fields.size()));
  }

  /// For what repeats: one line per text and interval; once the interval has ended, a line tells
  /// how many more there were. Let the text be constant and the rest fields.
  void limited(Level level, std::string_view text, Fields fields = {});
  /// Writes the counts of ended intervals. limited() does so too; call it now and then, so that the
  /// count of a text that stopped repeating comes out as well.
  void report_suppressed();

  /// Whether a line of this level goes anywhere, the ring included.
  [[nodiscard]] bool enabled(Level level) const noexcept;
  void set_threshold(Level level) noexcept;
  [[nodiscard]] Level threshold() const noexcept;

  /// Opens the file anew under its name: after somebody has renamed it.
  void reopen();
  /// The ring's lines, oldest first, as text.
  [[nodiscard]] std::string ring() const;
  /// Replaces a file by the ring's lines.
  [[nodiscard]] Result<void> dump_ring(const std::string& path) const;
  /// Lines that could not be written, or came after the size limit.
  [[nodiscard]] std::uint64_t lost_count() const noexcept;
  /// Whether an unopenable file made it fall back to standard error.
  [[nodiscard]] bool fell_back() const noexcept;

 private:
  void write(Level level, std::string_view text, std::span<const Field> fields);
  void write_suppressed(std::span<const RateLimiter::Suppressed> held);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::log
