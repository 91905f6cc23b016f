#include "partition/store/store.hpp"

#include <utility>

#include <fmt/format.h>

#include "migrations.hpp"
#include "os/file.hpp"
#include "os/random.hpp"
#include "os/thread.hpp"
#include "postgres.hpp"
#include "sqlite.hpp"
#include "store_state.hpp"

namespace imex::partition {
namespace {

constexpr const char* kChannel = "imex_change";

WallTime system_time() {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

bool is_postgres(const std::string& url) {
  return url.starts_with("postgresql://") || url.starts_with("postgres://") ||
         (url.find('=') != std::string::npos && url.find('/') != 0);
}

}  // namespace

// ---- ChangeSignal ------------------------------------------------------------------------------

void ChangeSignal::raise() {
  {
    const MutexLock lock(mutex_);
    ++value_;
    changed_.notify_all();
  }
  const MutexLock lock(callback_mutex_);
  if (callback_) callback_();
}

void ChangeSignal::interrupt() {
  const MutexLock lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

std::uint64_t ChangeSignal::value() const {
  const MutexLock lock(mutex_);
  return value_;
}

std::uint64_t ChangeSignal::wait(std::uint64_t seen,
                                 std::chrono::steady_clock::time_point deadline) {
  const MutexLock lock(mutex_);
  while (value_ == seen && !interrupted_)
    if (!changed_.wait_until(mutex_, deadline)) break;
  return value_;
}

void ChangeSignal::on_change(std::function<void()> callback) {
  const MutexLock lock(callback_mutex_);
  callback_ = std::move(callback);
}

// ---- Opening and closing -----------------------------------------------------------------------

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  if (options.url.empty())
    return fail(Errc::kInvalidArgument, "no database given",
                "name a file (SQLite) or postgresql://…");
  return is_postgres(options.url) ? StoreState::open_postgres(options)
                                  : StoreState::open_sqlite(options);
}

StoreState::StoreState(const StoreOptions& options, std::unique_ptr<sql::Database> database,
                       Vault vault)
    : options_(options),
      clock_(options.clock ? options.clock : system_time),
      database_(std::move(database)),
      vault_(std::move(vault)),
      readers_(std::make_unique<ReaderPool>(*database_, options.readers, options.patience)) {}

StoreState::~StoreState() {
  change_.interrupt();
  stopping_ = true;
  if (stop_listening_ != nullptr) stop_listening_->raise();
  if (listener_.joinable()) listener_.join();
  writer_.reset();
  leadership_.reset();
}

Result<std::unique_ptr<Store>> StoreState::open_sqlite(const StoreOptions& options) {
  IMEX_TRY(os::UniqueFd lock, os::lock_file(options.url + ".lock"));
  IMEX_TRY(Vault vault,
           Vault::open(options.key_file.empty() ? options.url + ".key" : options.key_file));
  std::unique_ptr<StoreState> store(
      new StoreState(options, sql::sqlite_database(options.url), std::move(vault)));
  store->lock_ = std::move(lock);
  {
    IMEX_TRY(const std::unique_ptr<sql::Connection> connection,
             store->database_->connect(sql::Database::Use::kWrite));
    IMEX_CHECK_OK(migrate(*connection, Dialect::kSqlite));
    IMEX_TRY(store->leadership_, sole_leadership(*connection, options.replica));
  }
  store->start_writer({});
  return {std::move(store)};
}

Result<std::unique_ptr<Store>> StoreState::open_postgres(const StoreOptions& options) {
  if (options.key_file.empty())
    return fail(Errc::kInvalidArgument, "with PostgreSQL a key file for credentials is needed",
                "give all replicas the same one");
  IMEX_TRY(Vault vault, Vault::open(options.key_file));
  std::unique_ptr<StoreState> store(
      new StoreState(options, sql::postgres_database(options.url), std::move(vault)));
  {
    IMEX_TRY(const std::unique_ptr<sql::Connection> connection,
             store->database_->connect(sql::Database::Use::kWrite));
    IMEX_CHECK_OK(migrate(*connection, Dialect::kPostgres));
  }
  store->leadership_ = shared_leadership(*store->database_, options.replica);
  const std::string token = os::random_uuid().to_string();
  store->start_writer([token](sql::Connection& connection) -> Result<void> {
    return connection.query("SELECT pg_notify($1, $2)",
                            {std::string_view(kChannel), std::string_view(token)},
                            [](const sql::Row&) {});
  });
  IMEX_TRY(os::EventFd stop, os::EventFd::make());
  store->stop_listening_ = std::make_unique<os::EventFd>(std::move(stop));
  const os::SignalsBlocked blocked;
  store->listener_ =
      std::thread([state = store.get(), url = options.url, token] { state->listen(url, token); });
  return {std::move(store)};
}

void StoreState::start_writer(std::function<Result<void>(sql::Connection&)> before_commit) {
  writer_ = std::make_unique<WriteQueue>(
      *database_, WriteQueue::Options{.clock = clock_,
                                      .patience = options_.patience,
                                      .before_commit = std::move(before_commit),
                                      .after_commit = [this] { change_.raise(); }});
}

// Writes of other replicas arrive as notifications. Whatever may have been missed while there was
// no connection counts as a change.
void StoreState::listen(const std::string& url, const std::string& token) {
  constexpr auto kPause = std::chrono::seconds(1);
  os::name_this_thread("store-listener");
  std::unique_ptr<sql::Listener> listener;
  while (!stopping_) {
    if (listener == nullptr) {
      if (auto made = sql::postgres_listen(url, kChannel)) {
        listener = std::move(*made);
        change_.raise();
      } else {
        std::array<os::PollItem, 1> stop{{{.fd = stop_listening_->fd()}}};
        static_cast<void>(os::poll_any(stop, std::chrono::steady_clock::now() + kPause));
        continue;
      }
    }
    const auto heard = listener->wait(std::chrono::seconds(5), stop_listening_->fd(), token);
    if (!heard)
      listener.reset();
    else if (*heard)
      change_.raise();
  }
}

// ---- Transactions ------------------------------------------------------------------------------

Result<void> StoreState::read(const std::function<Result<void>(ReadTransaction&)>& work) {
  return readers_->run(clock_(), work);
}

Result<void> StoreState::write(const Actor& actor,
                               const std::function<Result<void>(WriteTransaction&)>& work) {
  return writer_->run(actor, work, true);
}

Result<void> StoreState::rehearse(const Actor& actor,
                                  const std::function<Result<void>(WriteTransaction&)>& work) {
  return writer_->run(actor, work, false);
}

Result<void> StoreState::put_credentials(const Actor& actor, const EndpointId& endpoint,
                                         const EndpointCredentials& credentials) {
  const bool none = credentials.user.empty() && credentials.password.empty() &&
                    credentials.ca_certificate_path.empty() &&
                    credentials.client_certificate_path.empty() &&
                    credentials.client_key_path.empty();
  const std::string sealed = none ? std::string() : vault_.seal(endpoint, credentials);
  return write(actor, [&](WriteTransaction& t) { return t.put_credentials(endpoint, sealed); });
}

}  // namespace imex::partition
