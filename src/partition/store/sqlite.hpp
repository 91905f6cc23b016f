/// SQLite behind the store's statement layer.
#pragma once

#include <memory>
#include <string>

#include "sql.hpp"

namespace imex::partition::sql {

/// The database in file `path`, made if missing (mode 0600). WAL, synchronous FULL: what was
/// committed survives a power failure.
[[nodiscard]] std::unique_ptr<Database> sqlite_database(std::string path);

}  // namespace imex::partition::sql
