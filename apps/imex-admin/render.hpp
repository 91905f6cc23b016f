/// What a command has to say, and its shapes: ascii-table, json, csv, yaml; and jsonl, as `imex`
/// has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace imex::admin {

/// Keys stay in the order in which they were added.
using Json = nlohmann::ordered_json;

enum class Format : std::uint8_t { kAsciiTable, kJson, kJsonLines, kCsv, kYaml };
/// Errors: kInvalidArgument.
[[nodiscard]] Result<Format> parse_format(std::string_view name);

struct Table {
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};  ///< as many cells as columns
};

/// One answer. json and yaml show `json`, jsonl one line of it for each element of a list; the
/// others what people read: ascii-table the line, or else the fields, then the table, or with
/// `as_json` the JSON; csv the table, or else the fields as a header and a row.
struct Output {
  Json json{};  ///< null: there is nothing to say
  bool as_json = false;
  std::string line{};
  std::vector<std::pair<std::string, std::string>> fields{};
  Table table{};
};

/// Ends with a line end unless it is empty. Cells may come from anywhere: what could steer a
/// terminal is shown escaped in ascii-table; the other shapes have escapes of their own.
[[nodiscard]] std::string render(const Output& output, Format format);

}  // namespace imex::admin
