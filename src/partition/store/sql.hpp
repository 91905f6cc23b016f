/// The one shape in which the store speaks to SQLite and to PostgreSQL: statements with $1, $2, …,
/// and rows of integers and text. Both take the same SQL; what differs stays behind Database.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"

namespace imex::partition::sql {

/// A parameter. Text is borrowed for the call and holds no NUL.
using Value = std::variant<std::nullptr_t, std::int64_t, std::string_view>;

/// The present row of a result; columns count from 0. Text is valid until the callback returns.
class Row {
 public:
  virtual ~Row() = default;
  [[nodiscard]] virtual bool is_null(int column) const = 0;
  [[nodiscard]] virtual std::int64_t integer(int column) const = 0;
  [[nodiscard]] virtual std::string_view text(int column) const = 0;
};

using RowCallback = std::function<void(const Row&)>;

/// What a violated foreign key means to whoever asked.
[[nodiscard]] inline Error still_referred_to() {
  return {Errc::kFailedPrecondition,
          "what refers to it is still there, or what it refers to is gone",
          "remove or move what depends on it first"};
}

/// Not thread-safe; one user at a time. Errors of all: kAlreadyExists (unique), kFailedPrecondition
/// (foreign key), kUnavailable (busy, connection lost, server going down), kDeadlineExceeded,
/// kInternal.
class Connection {
 public:
  virtual ~Connection() = default;
  /// Statements are kept prepared by their text. Returns the number of rows changed.
  [[nodiscard]] virtual Result<std::uint64_t> run(std::string_view sql,
                                                  std::span<const Value> parameters,
                                                  const RowCallback* on_row) = 0;
  /// Several statements, nothing kept; for migrations and settings.
  [[nodiscard]] virtual Result<void> script(const std::string& sql) = 0;
  [[nodiscard]] virtual Result<void> begin_read() = 0;
  /// After this no other writer of any process writes until the transaction ends.
  [[nodiscard]] virtual Result<void> begin_write() = 0;
  /// False once the connection is of no more use and must be made anew.
  [[nodiscard]] virtual bool alive() const = 0;

  [[nodiscard]] Result<std::uint64_t> execute(std::string_view sql,
                                              std::initializer_list<Value> parameters = {}) {
    return run(sql, std::span(parameters.begin(), parameters.size()), nullptr);
  }
  [[nodiscard]] Result<void> query(std::string_view sql, std::initializer_list<Value> parameters,
                                   const RowCallback& on_row) {
    return query(sql, std::span(parameters.begin(), parameters.size()), on_row);
  }
  [[nodiscard]] Result<void> query(std::string_view sql, std::span<const Value> parameters,
                                   const RowCallback& on_row) {
    IMEX_CHECK_OK(run(sql, parameters, &on_row));
    return {};
  }
  [[nodiscard]] Result<void> commit() { return plain("COMMIT"); }
  /// Best effort: what cannot be rolled back has ended with its connection.
  void rollback() noexcept { static_cast<void>(plain("ROLLBACK")); }
  [[nodiscard]] Result<void> plain(std::string_view sql) {
    IMEX_CHECK_OK(run(sql, {}, nullptr));
    return {};
  }
};

/// Makes connections to one database. Thread-safe.
class Database {
 public:
  virtual ~Database() = default;
  enum class Use : std::uint8_t { kRead, kWrite };
  [[nodiscard]] virtual Result<std::unique_ptr<Connection>> connect(Use use) = 0;
};

}  // namespace imex::partition::sql
