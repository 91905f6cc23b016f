/// One log line before it is text; private to this room.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "log/log.hpp"

namespace imex::log {

struct Record {
  std::chrono::system_clock::time_point time;
  Level level = Level::kInfo;
  std::int32_t thread_id = 0;
  std::string_view text;
  std::span<const Field> fields{};
};

/// `[Mar 25 2025 10:41:54] [INFO] [tid 38] text key=value`, local time; no line end.
[[nodiscard]] std::string render_text(const Record& record);
/// `{"time":"2025-03-25T10:41:54.123Z","level":"info","tid":38,"text":"...","key":value}`, UTC.
[[nodiscard]] std::string render_json(const Record& record);
/// Text and fields alone, for syslog.
[[nodiscard]] std::string render_plain(const Record& record);
/// `IMEX Log initializing at: 3/21/2025 20:45:38.937`, local time.
[[nodiscard]] std::string headline(std::chrono::system_clock::time_point time);

}  // namespace imex::log
