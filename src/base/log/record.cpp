#include "record.hpp"

#include <time.h>

#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace imex::log {

namespace {

using WallTime = std::chrono::system_clock::time_point;

constexpr std::array<std::string_view, 7> kNames = {"off",  "critical", "error", "warn",
                                                    "info", "debug",    "trace"};
// The words of nvidia-imex; "WARNING" by analogy with the level's name in its configuration.
constexpr std::array<std::string_view, 7> kTextNames = {"OFF",  "CRITICAL", "ERROR", "WARNING",
                                                        "INFO", "DEBUG",    "TRACE"};
// Not strftime's: those follow the locale.
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct Moment {
  std::tm fields{};
  int milliseconds = 0;
};

Moment split(WallTime time, bool local) {
  using std::chrono::floor;
  const auto whole = floor<std::chrono::seconds>(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(whole);
  Moment moment;
  const std::tm* done =
      local ? ::localtime_r(&seconds, &moment.fields) : ::gmtime_r(&seconds, &moment.fields);
  if (done == nullptr) moment.fields = std::tm{};  // a year beyond int: show the epoch's fields
  moment.milliseconds = static_cast<int>(floor<std::chrono::milliseconds>(time - whole).count());
  return moment;
}

/// One line whatever the text holds: control characters and backslashes are escaped.
void append_escaped(std::string& line, std::string_view text, bool escape_quotes) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      line += "\\n";
    else if (c == '\r')
      line += "\\r";
    else if (c == '\t')
      line += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      line += fmt::format("\\x{:02x}", byte);
    else if (escape_quotes && (c == '"' || c == '\\'))
      (line += '\\') += c;
    else
      line += c;
  }
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '"' || c == '=' || c == '\\') return true;
  }
  return false;
}

struct AppendText {
  std::string& line;
  void operator()(bool value) const { line += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { line += std::to_string(value); }
  void operator()(std::uint64_t value) const { line += std::to_string(value); }
  void operator()(double value) const { line += fmt::format("{}", value); }
  void operator()(const std::string& value) const {
    if (!needs_quotes(value)) {
      line += value;
      return;
    }
    line += '"';
    append_escaped(line, value, true);
    line += '"';
  }
};

void append_plain(std::string& line, const Record& record) {
  append_escaped(line, record.text, false);
  for (const Field& field : record.fields) {
    line += ' ';
    line += field.key();
    line += '=';
    std::visit(AppendText{line}, field.value());
  }
}

nlohmann::ordered_json json_value(const Field::Value& value) {
  return std::visit(
      [](const auto& plain) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(plain)>, double>) {
          if (!std::isfinite(plain)) return fmt::format("{}", plain);  // JSON has no such numbers
        }
        return plain;
      },
      value);
}

}  // namespace

std::string_view level_name(Level level) noexcept {
  return kNames[static_cast<std::size_t>(level)];
}

Result<Level> level_from_number(std::int64_t number) {
  if (number < 0 || number > static_cast<std::int64_t>(Level::kTrace)) {
    return fail(Errc::kInvalidArgument, fmt::format("{} is no log level from 0 to 6", number));
  }
  return static_cast<Level>(number);
}

std::string render_plain(const Record& record) {
  std::string line;
  append_plain(line, record);
  return line;
}

std::string render_text(const Record& record) {
  const std::tm at = split(record.time, true).fields;
  std::string line = fmt::format(
      "[{} {:02} {} {:02}:{:02}:{:02}] [{}] [tid {}] ",
      kMonths[static_cast<std::size_t>(at.tm_mon)], at.tm_mday, at.tm_year + 1900, at.tm_hour,
      at.tm_min, at.tm_sec, kTextNames[static_cast<std::size_t>(record.level)], record.thread_id);
  append_plain(line, record);
  return line;
}

std::string render_json(const Record& record) {
  const Moment at = split(record.time, false);
  const std::tm& utc = at.fields;
  nlohmann::ordered_json line;
  line["time"] =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, at.milliseconds);
  line["level"] = level_name(record.level);
  line["tid"] = record.thread_id;
  line["text"] = record.text;
  for (const Field& field : record.fields) {
    std::string key(field.key());
    if (line.contains(key)) key.insert(0, "field_");  // never hides what every line has
    line[key] = json_value(field.value());
  }
  // Bytes from outside need not be UTF-8: replaced, where the default would throw.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string headline(WallTime time) {
  const Moment at = split(time, true);
  const std::tm& local = at.fields;
  return fmt::format("IMEX Log initializing at: {}/{}/{} {:02}:{:02}:{:02}.{:03}", local.tm_mon + 1,
                     local.tm_mday, local.tm_year + 1900, local.tm_hour, local.tm_min, local.tm_sec,
                     at.milliseconds);
}

}  // namespace imex::log
