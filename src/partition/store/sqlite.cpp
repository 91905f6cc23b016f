#include "sqlite.hpp"

#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/assert.hpp"
#include "os/file.hpp"

namespace imex::partition::sql {
namespace {

/// How long a connection waits for the file's locks: another process can only be a backup or a
/// person's sqlite3, since the store holds the lock file.
constexpr int kBusyMs = 5'000;
/// Lists are made of few shapes; beyond, somebody plays with filters and all are prepared anew.
constexpr std::size_t kPreparedMax = 256;

Error sqlite_error(sqlite3* handle, int code, std::string_view what) {
  const int extended = handle == nullptr ? code : sqlite3_extended_errcode(handle);
  Errc errc = Errc::kInternal;
  switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
      errc = extended == SQLITE_CONSTRAINT_FOREIGNKEY ? Errc::kFailedPrecondition
                                                      : Errc::kAlreadyExists;
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      errc = Errc::kUnavailable;
      break;
    case SQLITE_FULL:
      errc = Errc::kResourceExhausted;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      errc = Errc::kDataLoss;
      break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
      errc = Errc::kPermissionDenied;
      break;
    default:
      break;
  }
  if (errc == Errc::kFailedPrecondition) return still_referred_to();
  return Error{errc, fmt::format("{}: {} ({})", what,
                                 handle == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle),
                                 extended)};
}

struct CloseHandle {
  void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};
using Handle = std::unique_ptr<sqlite3, CloseHandle>;
using StatementPointer = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// A prepared statement, and where each $N lies: SQLite numbers names in the order it meets them.
struct PreparedStatement {
  StatementPointer statement;
  std::vector<int> index_of;  ///< by N - 1; 0: not used
};

/// Leaves a statement ready for its next use, whatever happened.
class StatementReset {
 public:
  explicit StatementReset(sqlite3_stmt* statement) noexcept : statement_(statement) {}
  ~StatementReset() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  StatementReset(const StatementReset&) = delete;
  StatementReset& operator=(const StatementReset&) = delete;

 private:
  sqlite3_stmt* statement_;
};

class SqliteRow final : public Row {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) noexcept : statement_(statement) {}
  [[nodiscard]] bool is_null(int column) const override {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  [[nodiscard]] std::int64_t integer(int column) const override {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] std::string_view text(int column) const override {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    if (bytes == nullptr) return {};
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  sqlite3_stmt* statement_;
};

class SqliteConnection final : public Connection {
 public:
  explicit SqliteConnection(Handle handle) noexcept : handle_(std::move(handle)) {}

  [[nodiscard]] Result<std::uint64_t> run(std::string_view sql, std::span<const Value> parameters,
                                          const RowCallback* on_row) override {
    IMEX_TRY(PreparedStatement * prepared, prepare(sql));
    sqlite3_stmt* statement = prepared->statement.get();
    const StatementReset reset(statement);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      IMEX_CHECK_OK(bind(*prepared, i, parameters[i]));
    const SqliteRow row(statement);
    for (;;) {
      const int code = sqlite3_step(statement);
      if (code == SQLITE_DONE) break;
      if (code != SQLITE_ROW) return fail(sqlite_error(handle_.get(), code, "sqlite"));
      if (on_row != nullptr) (*on_row)(row);
    }
    return static_cast<std::uint64_t>(sqlite3_changes64(handle_.get()));
  }

  [[nodiscard]] Result<void> script(const std::string& sql) override {
    if (const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
        code != SQLITE_OK)
      return fail(sqlite_error(handle_.get(), code, "sqlite script"));
    return {};
  }

  [[nodiscard]] Result<void> begin_read() override { return plain("BEGIN"); }
  [[nodiscard]] Result<void> begin_write() override { return plain("BEGIN IMMEDIATE"); }
  [[nodiscard]] bool alive() const override { return true; }

 private:
  Result<PreparedStatement*> prepare(std::string_view sql) {
    if (const auto found = prepared_.find(sql); found != prepared_.end()) return &found->second;
    sqlite3_stmt* raw = nullptr;
    const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
    StatementPointer statement(raw);
    if (code != SQLITE_OK) return fail(sqlite_error(handle_.get(), code, "sqlite prepare"));
    PreparedStatement prepared{std::move(statement), {}};
    const int count = sqlite3_bind_parameter_count(raw);
    for (int n = 1; n <= count; ++n)
      prepared.index_of.push_back(sqlite3_bind_parameter_index(raw, fmt::format("${}", n).c_str()));
    if (prepared_.size() >= kPreparedMax) prepared_.clear();
    return &prepared_.emplace(std::string(sql), std::move(prepared)).first->second;
  }

  Result<void> bind(const PreparedStatement& prepared, std::size_t number, const Value& value) {
    IMEX_ASSERT(number < prepared.index_of.size() && prepared.index_of[number] != 0,
                "each parameter is used in the statement");
    sqlite3_stmt* statement = prepared.statement.get();
    const int index = prepared.index_of[number];
    int code = SQLITE_OK;
    if (const auto* integer = std::get_if<std::int64_t>(&value))
      code = sqlite3_bind_int64(statement, index, *integer);
    else if (const auto* text = std::get_if<std::string_view>(&value))
      code = sqlite3_bind_text64(statement, index, text->data() == nullptr ? "" : text->data(),
                                 text->size(), SQLITE_STATIC, SQLITE_UTF8);
    else
      code = sqlite3_bind_null(statement, index);
    if (code != SQLITE_OK) return fail(sqlite_error(handle_.get(), code, "sqlite bind"));
    return {};
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  Handle handle_;
  std::unordered_map<std::string, PreparedStatement, Hash, std::equal_to<>> prepared_;
};

class SqliteDatabase final : public Database {
 public:
  explicit SqliteDatabase(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] Result<std::unique_ptr<Connection>> connect(Use use) override {
    if (use == Use::kWrite) {
      // SQLite gives its other files (WAL, shared memory) the mode of this one.
      IMEX_TRY([[maybe_unused]] const os::UniqueFd made, os::open_for_append(path_, false, 0600));
    }
    sqlite3* raw = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(path_.c_str(), &raw, flags, nullptr);
    Handle handle(raw);
    if (code != SQLITE_OK) return fail(sqlite_error(raw, code, "open " + path_));
    sqlite3_busy_timeout(raw, kBusyMs);
    auto connection = std::make_unique<SqliteConnection>(std::move(handle));
    // Readers map the file: a point query then copies no page. 256 MiB is address space only.
    IMEX_CHECK_OK(
        connection->script("PRAGMA journal_mode = WAL;"
                           "PRAGMA synchronous = FULL;"
                           "PRAGMA foreign_keys = ON;"
                           "PRAGMA temp_store = MEMORY;"
                           "PRAGMA cache_size = -4096;"
                           "PRAGMA mmap_size = 268435456;"));
    if (use == Use::kRead) IMEX_CHECK_OK(connection->script("PRAGMA query_only = ON"));
    return {std::move(connection)};
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Database> sqlite_database(std::string path) {
  return std::make_unique<SqliteDatabase>(std::move(path));
}

}  // namespace imex::partition::sql
