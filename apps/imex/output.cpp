#include "output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace imex::cli {
namespace {

constexpr std::size_t kBarWidth = 24;

bool is_number(std::string_view cell) noexcept {
  return !cell.empty() && cell.find_first_not_of("0123456789.-+%") == std::string_view::npos &&
         cell.find_first_of("0123456789") != std::string_view::npos &&
         std::count(cell.begin(), cell.end(), '.') <= 1;
}

std::string dump(const Json& value, int indent) {
  // Bytes from outside may be no UTF-8; they must not make us fail while printing.
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::size_t display_width(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
  }));
}

void Table::add(std::vector<std::string> row) {
  IMEX_ASSERT(row.size() <= header_.size(), "more cells than columns");
  row.resize(header_.size());
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string Table::render() const {
  std::vector<std::size_t> widths;
  std::vector<bool> numeric;
  for (std::size_t column = 0; column < header_.size(); ++column) {
    std::size_t width = display_width(header_[column]);
    bool numbers = !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, display_width(row[column]));
      numbers = numbers && (row[column].empty() || is_number(row[column]));
    }
    widths.push_back(width);
    numeric.push_back(numbers);
  }
  std::string text;
  const auto put = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (column != 0) line += "  ";
      const std::string fill(widths[column] - display_width(row[column]), ' ');
      line += numeric[column] ? fill + row[column] : row[column] + fill;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  put(header_);
  for (const auto& row : rows_) put(row);
  return text;
}

std::string render_list(Format format, std::string_view name, const std::vector<Json>& rows,
                        const Table& table) {
  if (format == Format::kTable) return table.render();
  if (format == Format::kJson) return dump(Json{{std::string(name), rows}}, 2) + '\n';
  std::string lines;
  for (const Json& row : rows) lines += dump(row, -1) + '\n';
  return lines;
}

Result<void> print(std::string_view text) {
  const bool newline = !text.empty() && text.back() != '\n';
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
                       (!newline || std::fputc('\n', stdout) != EOF) && std::fflush(stdout) == 0;
  if (!written) return fail(system_error(errno, "write the result to standard output"));
  return {};
}

Json error_json(const Error& error) {
  return {{"error",
           {{"code", errc_name(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
}

int report(const Error& error, Format format) {
  if (format != Format::kTable) {
    // The object is a service to programs; failing to write it changes nothing about the exit
    // status.
    static_cast<void>(print(dump(error_json(error), -1)));
  }
  const std::string line = "imex: " + printable(error.to_string()) + '\n';
  std::fputs(line.c_str(), stderr);
  return error.code == Errc::kInvalidArgument ? kExitUsage : kExitFailed;
}

Progress::Progress(std::size_t steps, bool quiet, std::FILE* out)
    : steps_(std::max<std::size_t>(steps, 1)),
      quiet_(quiet),
      terminal_(::isatty(::fileno(out)) == 1),
      out_(out) {}

Progress::~Progress() {
  if (!quiet_ && terminal_ && (done_ != 0 || !what_.empty())) std::fputs("\r\x1b[K", out_);
}

void Progress::step(std::string_view what) {
  const std::size_t finished = done_;
  done_ = std::min(done_ + 1, steps_);
  if (quiet_) return;
  if (terminal_) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    std::fprintf(out_, "\r\x1b[K%s", bar(finished, steps_, what, elapsed).c_str());
  } else {
    std::fprintf(out_, "%zu/%zu %.*s\n", done_, steps_, static_cast<int>(what.size()), what.data());
  }
  std::fflush(out_);
}

void Progress::amount(std::string_view what, std::uint64_t done, std::uint64_t total) {
  const bool fresh = what_ != what;
  if (fresh) start_ = std::chrono::steady_clock::now();
  what_ = what;
  if (quiet_ || (!terminal_ && !fresh)) return;
  if (terminal_) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    std::fprintf(out_, "\r\x1b[K%s", amount_bar(done, total, what, elapsed).c_str());
  } else {
    std::fprintf(out_, "%s\n", what_.c_str());
  }
  std::fflush(out_);
}

std::string Progress::bar(std::size_t done, std::size_t steps, std::string_view what,
                          std::chrono::nanoseconds elapsed) {
  const std::size_t filled = std::min(done, steps) * kBarWidth / std::max<std::size_t>(steps, 1);
  std::string text = fmt::format("[{}{}] {}/{} {}", std::string(filled, '#'),
                                 std::string(kBarWidth - filled, ' '), done, steps, what);
  if (done != 0 && done < steps) {
    const auto left =
        elapsed / static_cast<std::int64_t>(done) * static_cast<std::int64_t>(steps - done);
    text += fmt::format(", about {} s left", std::chrono::ceil<std::chrono::seconds>(left).count());
  }
  return text;
}

std::string Progress::amount_bar(std::uint64_t done, std::uint64_t total, std::string_view what,
                                 std::chrono::nanoseconds elapsed) {
  if (total == 0) return std::string(what);
  done = std::min(done, total);
  const auto share = static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  std::string text = fmt::format("[{}{}] {} of {} {}", std::string(filled, '#'),
                                 std::string(kBarWidth - filled, ' '), format_size(done),
                                 format_size(total), what);
  const double seconds = std::chrono::duration<double>(elapsed).count();
  if (done != 0 && done < total && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    text +=
        fmt::format(", {}/s, about {:.0f} s left", format_size(static_cast<std::uint64_t>(rate)),
                    std::ceil(static_cast<double>(total - done) / rate));
  }
  return text;
}

}  // namespace imex::cli
