#include "render.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/text.hpp"

namespace imex::admin {
namespace {

/// Columns that a terminal needs for UTF-8 text: code points, not bytes.
std::size_t display_width(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
  }));
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string json_lines(const Json& json) {
  if (!json.is_array()) return json_text(json, -1) + '\n';
  std::string lines;
  for (const Json& item : json) lines += json_text(item, -1) + '\n';
  return lines;
}

// ---- ascii-table -------------------------------------------------------------------------------

std::string ascii_table(const Table& table) {
  std::vector<std::vector<std::string>> lines{table.columns};
  for (const auto& row : table.rows) {
    auto& cells = lines.emplace_back();
    for (const std::string& cell : row) cells.push_back(printable(cell));
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], display_width(cells[i]));
  }
  std::string rule = "+";
  for (const std::size_t width : widths) rule += std::string(width + 2, '-') + "+";
  rule += '\n';
  std::string text = rule;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    text += '|';
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string& cell = lines[line][i];
      text += ' ' + cell + std::string(widths[i] - display_width(cell), ' ') + " |";
    }
    text += '\n';
    if (line == 0) text += rule;
  }
  if (!table.rows.empty()) text += rule;
  return text;
}

std::string field_lines(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, display_width(name));
  std::string text;
  for (const auto& [name, value] : fields) {
    std::string line = fmt::format("{}{} : {}", name, std::string(width - display_width(name), ' '),
                                   printable(value));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string ascii(const Output& output) {
  if (!output.line.empty()) return printable(output.line) + '\n';
  if (output.as_json) return json_text(output.json, 2) + '\n';
  std::string text = field_lines(output.fields);
  if (!output.table.columns.empty()) text += ascii_table(output.table);
  return text;
}

// ---- csv (RFC 4180, lines end with a line feed alone) ------------------------------------------

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  return line + '\n';
}

std::string csv(const Output& output) {
  Table table = output.table;
  if (table.columns.empty()) {
    auto& row = table.rows.emplace_back();
    for (const auto& [name, value] : output.fields) {
      table.columns.push_back(name);
      row.push_back(value);
    }
  }
  std::string text = csv_line(table.columns);
  for (const auto& row : table.rows) text += csv_line(row);
  return text;
}

// ---- yaml --------------------------------------------------------------------------------------

/// Whether a reader of YAML takes the text for just that text without quotes.
bool is_plain(const std::string& text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return false;
  const auto harmless = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
           c == '/';
  };
  if (!std::all_of(text.begin(), text.end(), harmless)) return false;
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 10> kWords{"true", "false", "null", "yes", "no",
                                                    "on",   "off",   "y",    "n",   "nan"};
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

std::string yaml_text(const std::string& text) {
  return is_plain(text) ? text : json_text(Json(text), -1);  // JSON's strings are YAML's
}

void add_yaml(const Json& json, std::size_t indent, std::string& out);

/// What stands behind "key:" or "-": on the same line, or below.
void add_yaml_value(const Json& json, std::size_t indent, std::string& out) {
  if (json.is_structured() && !json.empty()) {
    out += '\n';
    add_yaml(json, indent, out);
    return;
  }
  out += ' ';
  out += json.is_string() ? yaml_text(json.get<std::string>()) : json_text(json, -1);
  out += '\n';
}

void add_yaml(const Json& json, std::size_t indent, std::string& out) {
  const std::string space(indent, ' ');
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      out += space + yaml_text(key) + ':';
      add_yaml_value(value, indent + 2, out);
    }
    return;
  }
  for (const Json& item : json) {
    out += space + '-';
    if (!item.is_object() || item.empty()) {
      add_yaml_value(item, indent + 2, out);
      continue;
    }
    // The first key stands behind the dash, the others below it.
    std::string object;
    add_yaml(item, indent + 2, object);
    out += ' ' + object.substr(indent + 2);
  }
}

std::string yaml(const Json& json) {
  std::string text;
  if (json.is_structured() && !json.empty())
    add_yaml(json, 0, text);
  else
    add_yaml_value(json, 0, text);
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace

Result<Format> parse_format(std::string_view name) {
  if (name == "ascii-table" || name == "table") return Format::kAsciiTable;
  if (name == "json") return Format::kJson;
  if (name == "jsonl") return Format::kJsonLines;
  if (name == "csv") return Format::kCsv;
  if (name == "yaml") return Format::kYaml;
  return fail(Errc::kInvalidArgument, fmt::format("unknown format '{}'", printable(name)),
              "--format takes ascii-table, json, jsonl, csv or yaml");
}

std::string render(const Output& output, Format format) {
  if (output.json.is_null()) return {};
  switch (format) {
    case Format::kJson:
      return json_text(output.json, 2) + '\n';
    case Format::kJsonLines:
      return json_lines(output.json);
    case Format::kCsv:
      return csv(output);
    case Format::kYaml:
      return yaml(output.json);
    case Format::kAsciiTable:
      break;
  }
  return ascii(output);
}

}  // namespace imex::admin
