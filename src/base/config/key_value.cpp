#include "config/key_value.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace imex::config {

namespace {

constexpr std::size_t kKeyCharactersMax = 128;
constexpr std::string_view kBlanks = " \t\r\f\v";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_control(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

bool is_key_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

/// Beginning of a text from outside, fit for a message: printable and short.
std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string shown(text.substr(0, kShown));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return text.size() > kShown ? shown + "..." : shown;
}

/// What is wrong with a line that is neither blank nor a comment; empty if nothing is.
std::string fault_of(std::string_view key, std::string_view value, bool has_sign,
                     std::string_view line) {
  if (!has_sign) return fmt::format("'{}' is no KEY=VALUE", excerpt(line));
  if (key.empty()) return "no key before '='";
  if (key.size() > kKeyCharactersMax || !std::all_of(key.begin(), key.end(), is_key_character)) {
    return fmt::format("'{}' is no key: up to {} letters, digits and _ - .", excerpt(key),
                       kKeyCharactersMax);
  }
  if (value.size() > kValueCharactersMax) {
    return fmt::format("value of {} characters, at most {} are allowed", value.size(),
                       kValueCharactersMax);
  }
  if (std::any_of(value.begin(), value.end(), is_control)) return "value holds control characters";
  return {};
}

}  // namespace

std::string Problem::to_string() const {
  return key.empty() ? fmt::format("{}: {}", where, message)
                     : fmt::format("{}: {}: {}", where, key, message);
}

void Findings::keep(std::vector<Problem>& list, std::size_t& left_out, Problem problem) {
  if (list.size() < kKept)
    list.push_back(std::move(problem));
  else
    ++left_out;
}

Result<void> Findings::check() const {
  if (errors_.empty()) return {};
  std::string text;
  for (const Problem& problem : errors_) text += (text.empty() ? "" : "\n") + problem.to_string();
  if (errors_left_out_ != 0) text += fmt::format("\nand {} more", errors_left_out_);
  return fail(Errc::kInvalidArgument, std::move(text));
}

std::vector<std::string> Findings::warning_lines() const {
  std::vector<std::string> lines;
  for (const Problem& problem : warnings_) lines.push_back(problem.to_string());
  if (warnings_left_out_ != 0)
    lines.push_back(fmt::format("and {} more warnings", warnings_left_out_));
  return lines;
}

std::vector<Assignment> parse_key_values(std::string_view text, std::string_view file,
                                         Findings& findings) {
  if (text.size() > kTextBytesMax) {
    findings.error({std::string(file), "",
                    fmt::format("{} bytes, at most {} are allowed", text.size(), kTextBytesMax)});
    return {};
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // byte order mark of some editors
  std::vector<Assignment> assignments;
  std::unordered_map<std::string, std::size_t> index_by_key;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;

    const auto sign = line.find('=');
    const bool has_sign = sign != std::string_view::npos;
    const std::string_view key = trim(line.substr(0, std::min(sign, line.size())));
    const std::string_view value = has_sign ? trim(line.substr(sign + 1)) : std::string_view();
    std::string where = fmt::format("{}:{}", file, line_number);
    if (std::string fault = fault_of(key, value, has_sign, line); !fault.empty()) {
      const bool nameable = has_sign && key.size() <= kKeyCharactersMax &&
                            std::all_of(key.begin(), key.end(), is_key_character);
      findings.error({std::move(where), nameable ? std::string(key) : "", std::move(fault)});
      continue;
    }
    const auto [entry, fresh] = index_by_key.try_emplace(std::string(key), assignments.size());
    if (fresh) {
      assignments.push_back({std::string(key), std::string(value), line_number});
      continue;
    }
    Assignment& earlier = assignments[entry->second];
    findings.warning({std::move(where), std::string(key),
                      fmt::format("replaces the value of line {}", earlier.line_number)});
    earlier.value = std::string(value);
    earlier.line_number = line_number;
  }
  return assignments;
}

}  // namespace imex::config
