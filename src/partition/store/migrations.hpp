/// The schema, and how a database of an earlier version becomes one of this.
#pragma once

#include <cstdint>

#include "sql.hpp"

namespace imex::partition {

enum class Dialect : std::uint8_t { kSqlite, kPostgres };

/// Brings the schema to the present version, each step in its own write transaction. Errors:
/// kVersionMismatch (made by a newer Imex).
[[nodiscard]] Result<void> migrate(sql::Connection& connection, Dialect dialect);

}  // namespace imex::partition
