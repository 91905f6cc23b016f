/// One thread that writes: work from all callers, committed in groups.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.hpp"
#include "partition/store/transaction.hpp"
#include "sql.hpp"

namespace imex::partition {

/// A commit costs a wait for the disk (or a round trip and a wait for the server's disk); what
/// arrives meanwhile shares the next one. Each caller's work runs between savepoints, so one's
/// failure leaves the others' alone. Nobody is answered before the commit.
class WriteQueue {
 public:
  using Work = std::function<Result<void>(WriteTransaction&)>;
  struct Options {
    std::function<WallTime()> clock;
    std::chrono::milliseconds patience{};
    /// Runs in the transaction, before the commit, when some of its work woke the reconciler.
    std::function<Result<void>(sql::Connection&)> before_commit;
    /// Runs after it.
    std::function<void()> after_commit;
  };

  WriteQueue(sql::Database& database, Options options);
  /// Work that has not begun is refused.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  /// Blocks until the work is committed or undone. `keep` false: undone always.
  [[nodiscard]] Result<void> run(const Actor& actor, const Work& work, bool keep);

 private:
  enum class Phase : std::uint8_t { kWaiting, kRunning, kDone };
  struct Item {
    const Actor& actor;
    const Work& work;
    bool keep;
    Phase phase = Phase::kWaiting;  // guarded by mutex_
    Result<void> result{};
    CondVar done{};
  };

  void loop();
  [[nodiscard]] std::deque<Item*> take_group() IMEX_REQUIRES(mutex_);
  void write_group(const std::deque<Item*>& group);
  [[nodiscard]] Result<void> write_once(const std::deque<Item*>& group);
  void run_item(Item& item, bool& woke);
  [[nodiscard]] Result<void> connect();

  static constexpr std::size_t kWaitingMax = 4096;
  static constexpr std::size_t kGroupMax = 128;

  sql::Database& database_;
  const Options options_;
  std::unique_ptr<sql::Connection> connection_;  // the writer thread's

  Mutex mutex_;
  CondVar arrived_;
  std::deque<Item*> waiting_ IMEX_GUARDED_BY(mutex_);
  bool stopping_ IMEX_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// Connections for reading, each lent to one caller at a time.
class ReaderPool {
 public:
  ReaderPool(sql::Database& database, std::uint32_t size, std::chrono::milliseconds patience);
  [[nodiscard]] Result<void> run(WallTime now,
                                 const std::function<Result<void>(ReadTransaction&)>& work);

 private:
  class Lease;
  [[nodiscard]] Result<std::unique_ptr<sql::Connection>> borrow();
  void give_back(std::unique_ptr<sql::Connection> connection);

  sql::Database& database_;
  const std::chrono::milliseconds patience_;
  Mutex mutex_;
  CondVar returned_;
  std::deque<std::unique_ptr<sql::Connection>> idle_ IMEX_GUARDED_BY(mutex_);
  std::uint32_t unmade_ IMEX_GUARDED_BY(mutex_);  ///< that may still be made
};

}  // namespace imex::partition
