#include "postgres.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <libpq-fe.h>

#include "os/poll.hpp"

namespace imex::partition::sql {
namespace {

constexpr std::size_t kPostgresPreparedMax = 256;
/// Advisory lock that makes writers of all replicas take turns ("imexwrit").
constexpr std::int64_t kWriterLock = 0x696d'6578'7772'6974;

struct FinishConnection {
  void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
struct ClearResult {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using ConnectionPointer = std::unique_ptr<PGconn, FinishConnection>;
using ResultPointer = std::unique_ptr<PGresult, ClearResult>;

std::string trimmed_message(const char* message) {
  std::string text = message == nullptr ? "" : message;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Error postgres_error(PGconn* connection, const PGresult* result, std::string_view what) {
  const char* field = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view state = field == nullptr ? "" : field;
  Errc code = Errc::kInternal;
  if (PQstatus(connection) == CONNECTION_BAD || state.starts_with("08") || state.starts_with("57P"))
    code = Errc::kUnavailable;
  else if (state == "23505")
    code = Errc::kAlreadyExists;
  else if (state == "23503")
    return still_referred_to();
  else if (state == "57014" || state == "55P03")  // statement_timeout, lock_timeout
    code = Errc::kDeadlineExceeded;
  else if (state.starts_with("40"))
    code = Errc::kUnavailable;
  else if (state.starts_with("53"))
    code = Errc::kResourceExhausted;
  return Error{code,
               fmt::format("{}: {}", what,
                           trimmed_message(result == nullptr ? PQerrorMessage(connection)
                                                             : PQresultErrorMessage(result)))};
}

class PostgresRow final : public Row {
 public:
  PostgresRow(const PGresult* result, int row) noexcept : result_(result), row_(row) {}
  [[nodiscard]] bool is_null(int column) const override {
    return PQgetisnull(result_, row_, column) != 0;
  }
  [[nodiscard]] std::int64_t integer(int column) const override {
    const std::string_view digits = text(column);
    std::int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }
  [[nodiscard]] std::string_view text(int column) const override {
    return {PQgetvalue(result_, row_, column),
            static_cast<std::size_t>(PQgetlength(result_, row_, column))};
  }

 private:
  const PGresult* result_;
  int row_;
};

Result<ConnectionPointer> connect_to(const std::string& url, const char* purpose) {
  // The url stands as dbname with expand_dbname, so what it says itself wins over what is before
  // it. A server that has vanished from the network is noticed within about 4 s.
  const char* const keywords[] = {"connect_timeout",  "keepalives_idle",  "keepalives_interval",
                                  "keepalives_count", "tcp_user_timeout", "application_name",
                                  "options",          "dbname",           nullptr};
  const char* const values[] = {
      "5", "2", "1", "2", "4000", purpose,
      // The server, too, lets go of a client that vanished, and of one that stopped in a
      // transaction: it may hold the writers' lock.
      "-c statement_timeout=10000 -c lock_timeout=5000 "
      "-c idle_in_transaction_session_timeout=4000 -c tcp_keepalives_idle=1 "
      "-c tcp_keepalives_interval=1 -c tcp_keepalives_count=2 -c client_min_messages=warning",
      url.c_str(), nullptr};
  ConnectionPointer connection(PQconnectdbParams(keywords, values, 1));
  if (PQstatus(connection.get()) != CONNECTION_OK)
    return fail(
        Errc::kUnavailable,
        fmt::format("connect to PostgreSQL: {}", trimmed_message(PQerrorMessage(connection.get()))),
        "check the database url, that the server runs, and that it lets this user in");
  return {std::move(connection)};
}

class PostgresConnection final : public Connection {
 public:
  explicit PostgresConnection(ConnectionPointer connection) noexcept
      : connection_(std::move(connection)) {}

  [[nodiscard]] Result<std::uint64_t> run(std::string_view sql, std::span<const Value> parameters,
                                          const RowCallback* on_row) override {
    IMEX_TRY(const std::string* name, prepare(sql));
    texts_.resize(std::max(texts_.size(), parameters.size()));
    pointers_.assign(parameters.size(), nullptr);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (const auto* integer = std::get_if<std::int64_t>(&parameters[i]))
        texts_[i] = std::to_string(*integer);
      else if (const auto* text = std::get_if<std::string_view>(&parameters[i]))
        texts_[i].assign(*text);
      else
        continue;
      pointers_[i] = texts_[i].c_str();
    }
    const ResultPointer result(PQexecPrepared(connection_.get(), name->c_str(),
                                              static_cast<int>(parameters.size()), pointers_.data(),
                                              nullptr, nullptr, 0));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
      return fail(postgres_error(connection_.get(), result.get(), "postgresql"));
    if (on_row != nullptr)
      for (int row = 0; row < PQntuples(result.get()); ++row)
        (*on_row)(PostgresRow(result.get(), row));
    const std::string_view changed = PQcmdTuples(result.get());
    std::uint64_t count = 0;
    std::from_chars(changed.data(), changed.data() + changed.size(), count);
    return count;
  }

  [[nodiscard]] Result<void> script(const std::string& sql) override {
    const ResultPointer result(PQexec(connection_.get(), sql.c_str()));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
      return fail(postgres_error(connection_.get(), result.get(), "postgresql script"));
    return {};
  }

  [[nodiscard]] Result<void> begin_read() override {
    return plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  }
  [[nodiscard]] Result<void> begin_write() override {
    IMEX_CHECK_OK(plain("BEGIN"));
    // READ COMMITTED: the statement after the lock sees all that earlier holders committed.
    return query("SELECT pg_advisory_xact_lock($1)", {kWriterLock}, [](const Row&) {});
  }
  [[nodiscard]] bool alive() const override { return PQstatus(connection_.get()) == CONNECTION_OK; }

 private:
  Result<const std::string*> prepare(std::string_view sql) {
    if (const auto found = prepared_.find(sql); found != prepared_.end()) return &found->second;
    if (prepared_.size() >= kPostgresPreparedMax) {
      IMEX_CHECK_OK(script("DEALLOCATE ALL"));
      prepared_.clear();
    }
    std::string text(sql);
    std::string name = fmt::format("s{}", ++statement_count_);
    const ResultPointer result(
        PQprepare(connection_.get(), name.c_str(), text.c_str(), 0, nullptr));
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK)
      return fail(postgres_error(connection_.get(), result.get(), "postgresql prepare"));
    return &prepared_.emplace(std::move(text), std::move(name)).first->second;
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  ConnectionPointer connection_;
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> prepared_;
  std::uint64_t statement_count_ = 0;
  std::vector<std::string> texts_;  // libpq wants them terminated; kept for their capacity
  std::vector<const char*> pointers_;
};

class PostgresDatabase final : public Database {
 public:
  explicit PostgresDatabase(std::string url) : url_(std::move(url)) {}
  [[nodiscard]] Result<std::unique_ptr<Connection>> connect(Use use) override {
    IMEX_TRY(ConnectionPointer connection,
             connect_to(url_, use == Use::kRead ? "imex reader" : "imex writer"));
    return std::make_unique<PostgresConnection>(std::move(connection));
  }

 private:
  std::string url_;
};

class PostgresListener final : public Listener {
 public:
  explicit PostgresListener(ConnectionPointer connection) noexcept
      : connection_(std::move(connection)) {}

  [[nodiscard]] Result<bool> wait(std::chrono::milliseconds limit, int wake_fd,
                                  std::string_view own) override {
    if (take_notifications(own)) return true;
    std::array<os::PollItem, 2> items{{{.fd = PQsocket(connection_.get())}, {.fd = wake_fd}}};
    IMEX_CHECK_OK(os::poll_any(items, std::chrono::steady_clock::now() + limit));
    if (!items[0].readable && !items[0].hung_up) return false;
    if (PQconsumeInput(connection_.get()) == 0)
      return fail(postgres_error(connection_.get(), nullptr, "listen"));
    return take_notifications(own);
  }

 private:
  bool take_notifications(std::string_view own) {
    bool any = false;
    while (PGnotify* notification = PQnotifies(connection_.get())) {
      any |= own != notification->extra;
      PQfreemem(notification);
    }
    return any;
  }

  ConnectionPointer connection_;
};

}  // namespace

std::unique_ptr<Database> postgres_database(std::string url) {
  return std::make_unique<PostgresDatabase>(std::move(url));
}

Result<std::unique_ptr<Listener>> postgres_listen(const std::string& url,
                                                  const std::string& channel) {
  IMEX_TRY(ConnectionPointer connection, connect_to(url, "imex listener"));
  const ResultPointer result(PQexec(connection.get(), ("LISTEN " + channel).c_str()));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK)
    return fail(postgres_error(connection.get(), result.get(), "listen"));
  return std::make_unique<PostgresListener>(std::move(connection));
}

}  // namespace imex::partition::sql
