#include "leadership.hpp"

#include <utility>

namespace imex::partition {
namespace {

/// "imexlead"
constexpr std::int64_t kLeaderLock = 0x696d'6578'6c65'6164;
/// A heartbeat older than this is a leader that stopped; with calls once a second the next one
/// leads within about 4 s.
constexpr std::int64_t kHeartbeatMaxUs = 2'500'000;
/// The server's clock: replicas' clocks differ.
#define IMEX_SERVER_NOW "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"

class SoleLeadership final : public Leadership {
 public:
  explicit SoleLeadership(Term term) noexcept : term_(term) {}
  [[nodiscard]] Result<std::optional<Term>> lead() override { return std::optional(term_); }
  void resign() override {}  // there is nobody else

 private:
  Term term_;
};

class SharedLeadership final : public Leadership {
 public:
  SharedLeadership(sql::Database& database, std::string replica)
      : database_(database), replica_(std::move(replica)) {}

  [[nodiscard]] Result<std::optional<Term>> lead() override {
    const MutexLock lock(mutex_);
    if (connection_ == nullptr || !connection_->alive()) {
      term_.reset();
      connection_.reset();
      IMEX_TRY(connection_, database_.connect(sql::Database::Use::kWrite));
    }
    if (term_) return keep();
    return take();
  }

  void resign() override {
    const MutexLock lock(mutex_);
    term_.reset();
    connection_.reset();  // the lock goes with it
  }

 private:
  Result<std::optional<Term>> keep() IMEX_REQUIRES(mutex_) {
    auto kept =
        connection_->execute("UPDATE leader SET heartbeat = " IMEX_SERVER_NOW " WHERE term = $1",
                             {static_cast<std::int64_t>(term_->number)});
    if (kept && *kept == 1) return term_;
    term_.reset();
    connection_.reset();
    if (!kept && kept.error().code != Errc::kUnavailable) return fail(std::move(kept).error());
    return std::optional<Term>();
  }

  Result<std::optional<Term>> take() IMEX_REQUIRES(mutex_) {
    bool locked = false;
    IMEX_CHECK_OK(connection_->query(
        "SELECT CAST(CAST(pg_try_advisory_lock($1) AS INTEGER) AS BIGINT)", {kLeaderLock},
        [&](const sql::Row& row) { locked = row.integer(0) != 0; }));
    if (!locked) {
      IMEX_CHECK_OK(end_stopped_leader());
      return std::optional<Term>();
    }
    auto begun = begin_term();
    // Never keep the lock without a term: nobody would lead.
    if (!begun) connection_.reset();
    return begun;
  }

  /// In turn with all writers: what the former leader wrote is before this, what it tries to write
  /// after this is refused.
  Result<std::optional<Term>> begin_term() IMEX_REQUIRES(mutex_) {
    IMEX_CHECK_OK(connection_->begin_write());
    Term term;
    const auto read_term = [&](const sql::Row& row) {
      term.number = static_cast<std::uint64_t>(row.integer(0));
    };
    IMEX_CHECK_OK(connection_->query(
        "UPDATE leader SET term = term + 1, holder = $1, backend_pid = pg_backend_pid(), "
        "heartbeat = " IMEX_SERVER_NOW " RETURNING term",
        {std::string_view(replica_)}, read_term));
    IMEX_CHECK_OK(connection_->commit());
    term_ = term;
    return term_;
  }

  Result<void> end_stopped_leader() IMEX_REQUIRES(mutex_) {
    return connection_->query(
        "SELECT pg_terminate_backend(CAST(backend_pid AS INTEGER)) FROM leader "
        "WHERE heartbeat < " IMEX_SERVER_NOW
        " - $1 AND backend_pid <> pg_backend_pid() AND "
        // A pid is reused: only the connection that holds the lock is ended.
        "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
        "pid = backend_pid AND objid = CAST($2 AS BIGINT))",
        {kHeartbeatMaxUs, kLeaderLock & 0xffff'ffff}, [](const sql::Row&) {});
  }

  sql::Database& database_;
  const std::string replica_;
  Mutex mutex_;
  std::unique_ptr<sql::Connection> connection_ IMEX_GUARDED_BY(mutex_);
  std::optional<Term> term_ IMEX_GUARDED_BY(mutex_);
};

#undef IMEX_SERVER_NOW

}  // namespace

Result<std::unique_ptr<Leadership>> sole_leadership(sql::Connection& connection,
                                                    const std::string& replica) {
  IMEX_CHECK_OK(connection.begin_write());
  Term term;
  IMEX_CHECK_OK(connection.query(
      "UPDATE leader SET term = term + 1, holder = $1 RETURNING term", {std::string_view(replica)},
      [&](const sql::Row& row) { term.number = static_cast<std::uint64_t>(row.integer(0)); }));
  IMEX_CHECK_OK(connection.commit());
  return std::make_unique<SoleLeadership>(term);
}

std::unique_ptr<Leadership> shared_leadership(sql::Database& database, std::string replica) {
  return std::make_unique<SharedLeadership>(database, std::move(replica));
}

}  // namespace imex::partition
