/// The visitors that read and write records by their description: see describe.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "describe.hpp"
#include "sql.hpp"

namespace imex::partition {

/// A column's value, owned.
using Cell = std::variant<std::nullptr_t, std::int64_t, std::string>;
[[nodiscard]] sql::Value view_of(const Cell& cell);

/// Collects names: "id", "name", ...
class ColumnNames {
 public:
  template <class V>
  void operator()(std::string_view name, V&) {
    names.push_back(name);
  }
  void error(const std::optional<LastError>&) {
    names.insert(names.end(), {"error", "error_at", "error_count"});
  }
  std::vector<std::string_view> names;
};

// How each kind of field lies in its column.
[[nodiscard]] Cell to_cell(const Labels& labels);
[[nodiscard]] Cell to_cell(const std::vector<Gpu>& gpus);
[[nodiscard]] Cell to_cell(const std::vector<std::uint64_t>& uids);
[[nodiscard]] inline Cell to_cell(const std::string& text) { return text; }
[[nodiscard]] inline Cell to_cell(bool value) { return std::int64_t{value}; }
[[nodiscard]] inline Cell to_cell(std::uint32_t value) { return std::int64_t{value}; }
[[nodiscard]] inline Cell to_cell(std::uint64_t value) { return static_cast<std::int64_t>(value); }
[[nodiscard]] inline Cell to_cell(WallTime time) {
  return std::int64_t{time.time_since_epoch().count()};
}
[[nodiscard]] inline Cell to_cell(const MachineId& id) { return id.text; }
template <class Tag>
[[nodiscard]] Cell to_cell(const Id<Tag>& id) {
  return id.to_string();
}
[[nodiscard]] inline Cell to_cell(Status status) { return std::string(status_name(status)); }
[[nodiscard]] inline Cell to_cell(Health health) { return std::string(health_name(health)); }
[[nodiscard]] inline Cell to_cell(ResiliencyMode mode) {
  return std::string(resiliency_mode_name(mode));
}
[[nodiscard]] inline Cell to_cell(OperationKind kind) {
  return std::string(operation_kind_name(kind));
}
[[nodiscard]] inline Cell to_cell(OperationState state) {
  return std::string(operation_state_name(state));
}
[[nodiscard]] inline Cell to_cell(FabricProtocol protocol) {
  return static_cast<std::int64_t>(protocol);
}
template <class T>
[[nodiscard]] Cell to_cell(const std::optional<T>& maybe) {
  return maybe ? to_cell(*maybe) : Cell(nullptr);
}

class CellWriter {
 public:
  template <class V>
  void operator()(std::string_view, const V& value) {
    cells.push_back(to_cell(value));
  }
  void error(const std::optional<LastError>& error) {
    cells.push_back(error ? Cell(error->message) : Cell(nullptr));
    cells.push_back(error ? to_cell(error->at) : Cell(nullptr));
    cells.push_back(to_cell(error ? error->count : std::uint64_t{0}));
  }
  std::vector<Cell> cells;
};

/// Reads a row's columns in order. What does not parse was not written by us: damaged() says so.
class RowReader {
 public:
  explicit RowReader(const sql::Row& row) noexcept : row_(row) {}

  template <class V>
  void operator()(std::string_view, V& value) {
    read(column_++, value);
  }
  void error(std::optional<LastError>& error);
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }

 private:
  template <class T>
  void read(int column, std::optional<T>& maybe) {
    if (row_.is_null(column)) {
      maybe.reset();
    } else {
      read(column, maybe.emplace());
    }
  }
  template <class Tag>
  void read(int column, Id<Tag>& id) {
    read_uuid(column, id.uuid);
  }
  template <class Enum>
  void read_name(int column, Enum& value, std::optional<Enum> (*parse)(std::string_view) noexcept) {
    if (const auto parsed = parse(row_.text(column)))
      value = *parsed;
    else
      damaged_ = true;
  }
  void read(int column, std::string& text) { text = row_.text(column); }
  void read(int column, MachineId& id) { id.text = row_.text(column); }
  void read(int column, bool& value) { value = row_.integer(column) != 0; }
  void read(int column, std::uint32_t& value) {
    value = static_cast<std::uint32_t>(row_.integer(column));
  }
  void read(int column, std::uint64_t& value) {
    value = static_cast<std::uint64_t>(row_.integer(column));
  }
  void read(int column, WallTime& time) {
    time = WallTime(std::chrono::microseconds(row_.integer(column)));
  }
  void read(int column, Status& status) { read_name(column, status, parse_status); }
  void read(int column, Health& health) { read_name(column, health, parse_health); }
  void read(int column, ResiliencyMode& mode) { read_name(column, mode, parse_resiliency_mode); }
  void read(int column, OperationKind& kind) { read_name(column, kind, parse_operation_kind); }
  void read(int column, OperationState& state) { read_name(column, state, parse_operation_state); }
  void read(int column, FabricProtocol& protocol) {
    protocol = row_.integer(column) == 0 ? FabricProtocol::kNmxC : FabricProtocol::kNmxM;
  }
  void read(int column, Labels& labels);
  void read(int column, std::vector<Gpu>& gpus);
  void read(int column, std::vector<std::uint64_t>& uids);
  void read_uuid(int column, Uuid& uuid);

  const sql::Row& row_;
  int column_ = 0;
  bool damaged_ = false;
};

/// Lists of GPU uids as they lie in a column: "7936,7937". Errors: kDataLoss.
[[nodiscard]] std::string join_uids(const std::vector<std::uint64_t>& uids);
[[nodiscard]] Result<std::vector<std::uint64_t>> split_uids(std::string_view text);

}  // namespace imex::partition
