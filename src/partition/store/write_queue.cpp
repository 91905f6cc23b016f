#include "write_queue.hpp"

#include <algorithm>

#include "os/thread.hpp"

namespace imex::partition {
namespace {

using SteadyClock = std::chrono::steady_clock;

bool lost_connection(const Result<void>& result) {
  return !result && result.error().code == Errc::kUnavailable;
}

}  // namespace

WriteQueue::WriteQueue(sql::Database& database, Options options)
    : database_(database), options_(std::move(options)) {
  const os::SignalsBlocked blocked;
  thread_ = std::thread([this] { loop(); });
}

WriteQueue::~WriteQueue() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    arrived_.notify_all();
  }
  thread_.join();
}

Result<void> WriteQueue::run(const Actor& actor, const Work& work, bool keep) {
  Item item{actor, work, keep};
  const auto deadline = SteadyClock::now() + options_.patience;
  const MutexLock lock(mutex_);
  if (stopping_) return fail(Errc::kUnavailable, "the store is closing");
  if (waiting_.size() >= kWaitingMax)
    return fail(Errc::kResourceExhausted, "too many writes are waiting", "retry later");
  waiting_.push_back(&item);
  arrived_.notify_one();
  while (item.phase != Phase::kDone) {
    // Work that has begun is waited for: it is bounded by the database's own limits.
    const bool begun = item.phase == Phase::kRunning;
    const bool in_time = item.done.wait_until(
        mutex_, begun ? SteadyClock::now() + std::chrono::seconds(60) : deadline);
    if (!in_time && item.phase == Phase::kWaiting) {
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &item));
      return fail(Errc::kDeadlineExceeded, "no turn to write in time; nothing was done",
                  "retry later");
    }
  }
  return std::move(item.result);
}

void WriteQueue::loop() {
  os::name_this_thread("store-writer");
  for (;;) {
    std::deque<Item*> group;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_)
        static_cast<void>(
            arrived_.wait_until(mutex_, SteadyClock::now() + std::chrono::seconds(60)));
      if (stopping_) {
        for (Item* item : waiting_) {
          item->result = fail(Errc::kUnavailable, "the store is closing");
          item->phase = Phase::kDone;
          item->done.notify_all();
        }
        waiting_.clear();
        return;
      }
      group = take_group();
    }
    write_group(group);
    const MutexLock lock(mutex_);
    for (Item* item : group) {
      item->phase = Phase::kDone;
      item->done.notify_all();
    }
  }
}

std::deque<WriteQueue::Item*> WriteQueue::take_group() {
  std::deque<Item*> group;
  while (!waiting_.empty() && group.size() < kGroupMax) {
    waiting_.front()->phase = Phase::kRunning;
    group.push_back(waiting_.front());
    waiting_.pop_front();
  }
  return group;
}

void WriteQueue::write_group(const std::deque<Item*>& group) {
  // A connection that died while it was idle shows at the first statement: nothing was done, so
  // once more on a new one. After that the caller hears of it.
  Result<void> written = write_once(group);
  if (lost_connection(written)) written = write_once(group);
  if (written) return;
  for (Item* item : group)
    if (item->result) item->result = fail(written.error());
}

Result<void> WriteQueue::connect() {
  if (connection_ != nullptr && connection_->alive()) return {};
  connection_.reset();
  IMEX_TRY(connection_, database_.connect(sql::Database::Use::kWrite));
  return {};
}

// An error means that nothing was committed, but for one: when the commit itself is lost, nobody
// knows, and the error says so under another code than the one that is tried again.
Result<void> WriteQueue::write_once(const std::deque<Item*>& group) {
  for (Item* item : group) item->result = {};
  IMEX_CHECK_OK(connect());
  if (auto begun = connection_->begin_write(); !begun) {
    connection_->rollback();
    return begun;
  }
  bool woke = false;
  bool any = false;
  for (Item* item : group) {
    run_item(*item, woke);
    any |= item->result.has_value() && item->keep;
    if (!connection_->alive())
      return fail(Errc::kUnavailable, "the connection to the database was lost", "retry");
  }
  if (!any) {
    connection_->rollback();
    return {};
  }
  if (woke && options_.before_commit)
    if (auto told = options_.before_commit(*connection_); !told) {
      connection_->rollback();
      return told;
    }
  if (auto committed = connection_->commit(); !committed) {
    connection_->rollback();
    Error error = std::move(committed).error();
    if (error.code == Errc::kUnavailable) {
      error.code = Errc::kDeadlineExceeded;
      error.hint = "look whether the change is there before it is made again";
    }
    return fail(std::move(error).context("commit"));
  }
  if (woke && options_.after_commit) options_.after_commit();
  return {};
}

void WriteQueue::run_item(Item& item, bool& woke) {
  item.result = connection_->plain("SAVEPOINT item");
  if (!item.result) return;
  WriteTransaction transaction(*connection_, options_.clock(), item.actor);
  item.result = item.work(transaction);
  if (item.result && item.keep) {
    item.result = connection_->plain("RELEASE item");
    woke |= transaction.wakes_reconciler();
    return;
  }
  if (auto undone = connection_->plain("ROLLBACK TO item"); !undone && item.result)
    item.result = std::move(undone);
  static_cast<void>(connection_->plain("RELEASE item"));
}

// ---- Readers -----------------------------------------------------------------------------------

ReaderPool::ReaderPool(sql::Database& database, std::uint32_t size,
                       std::chrono::milliseconds patience)
    : database_(database), patience_(patience), unmade_(std::max(size, 1U)) {}

Result<std::unique_ptr<sql::Connection>> ReaderPool::borrow() {
  const auto deadline = SteadyClock::now() + patience_;
  {
    const MutexLock lock(mutex_);
    while (idle_.empty() && unmade_ == 0)
      if (!returned_.wait_until(mutex_, deadline) && idle_.empty() && unmade_ == 0)
        return fail(Errc::kDeadlineExceeded, "all connections for reading are busy", "retry later");
    if (!idle_.empty()) {
      auto connection = std::move(idle_.back());  // the warmest
      idle_.pop_back();
      return {std::move(connection)};
    }
    --unmade_;
  }
  auto made = database_.connect(sql::Database::Use::kRead);
  if (!made) give_back(nullptr);
  return made;
}

void ReaderPool::give_back(std::unique_ptr<sql::Connection> connection) {
  const MutexLock lock(mutex_);
  if (connection != nullptr && connection->alive())
    idle_.push_back(std::move(connection));
  else
    ++unmade_;
  returned_.notify_one();
}

Result<void> ReaderPool::run(WallTime now,
                             const std::function<Result<void>(ReadTransaction&)>& work) {
  for (bool again = true;; again = false) {
    IMEX_TRY(std::unique_ptr<sql::Connection> connection, borrow());
    Result<void> result = connection->begin_read();
    if (result) {
      ReadTransaction transaction(*connection, now);
      result = work(transaction);
      connection->rollback();
    }
    const bool lost = !connection->alive();
    give_back(std::move(connection));
    // A connection that died while it was idle: reading twice is harmless.
    if (!lost || result || !again) return result;
  }
}

}  // namespace imex::partition
