/// The one implementation of Store; what differs between databases is handed to it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "change_signal.hpp"
#include "leadership.hpp"
#include "os/fd.hpp"
#include "os/poll.hpp"
#include "partition/store/store.hpp"
#include "sql.hpp"
#include "vault.hpp"
#include "write_queue.hpp"

namespace imex::partition {

class StoreState final : public Store {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Store>> open_sqlite(const StoreOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Store>> open_postgres(const StoreOptions& options);
  ~StoreState() override;

  // Store
  [[nodiscard]] Result<void> read(
      const std::function<Result<void>(ReadTransaction&)>& work) override;
  [[nodiscard]] Result<void> write(
      const Actor& actor, const std::function<Result<void>(WriteTransaction&)>& work) override;
  [[nodiscard]] Result<void> rehearse(
      const Actor& actor, const std::function<Result<void>(WriteTransaction&)>& work) override;
  [[nodiscard]] Result<void> put_credentials(const Actor& actor, const EndpointId& endpoint,
                                             const EndpointCredentials& credentials) override;

  // ReconcilerStore; in reconcile.cpp
  [[nodiscard]] Result<std::optional<Term>> lead() override { return leadership_->lead(); }
  void resign() override { leadership_->resign(); }
  [[nodiscard]] Result<std::vector<Endpoint>> endpoints() override;
  [[nodiscard]] Result<EndpointCredentials> credentials(const EndpointId& endpoint) override;
  [[nodiscard]] Result<std::vector<Domain>> domains() override;
  [[nodiscard]] Result<DesiredDomain> desired(const DomainId& domain) override;
  [[nodiscard]] Result<void> write_observation(Term term, const EndpointId& endpoint,
                                               const DomainObservation& observation) override;
  [[nodiscard]] Result<void> report_endpoint(Term term, const EndpointReport& report) override;
  [[nodiscard]] Result<BegunOperation> begin_operation(Term term,
                                                       const OperationRecord& record) override;
  [[nodiscard]] Result<void> finish_operation(Term term, const std::string& key,
                                              OperationState state, std::uint32_t fabric_id,
                                              const std::string& detail) override;
  [[nodiscard]] Result<void> write_back(Term term, const WriteBack& changes) override;
  [[nodiscard]] std::uint64_t change() const override { return change_.value(); }
  [[nodiscard]] std::uint64_t wait_for_change(
      std::uint64_t seen, std::chrono::steady_clock::time_point deadline) override {
    return change_.wait(seen, deadline);
  }
  void on_change(std::function<void()> callback) override {
    change_.on_change(std::move(callback));
  }
  void interrupt() override { change_.interrupt(); }

 private:
  StoreState(const StoreOptions& options, std::unique_ptr<sql::Database> database, Vault vault);
  void start_writer(std::function<Result<void>(sql::Connection&)> before_commit);
  void listen(const std::string& url, const std::string& token);
  /// A write of the reconciler: refused unless `term` still leads.
  [[nodiscard]] Result<void> write_as_leader(
      Term term, const std::function<Result<void>(WriteTransaction&)>& work);

  const StoreOptions options_;
  const std::function<WallTime()> clock_;
  os::UniqueFd lock_;  ///< SQLite: the file is ours
  std::unique_ptr<sql::Database> database_;
  Vault vault_;
  ChangeSignal change_;
  std::unique_ptr<Leadership> leadership_;
  std::unique_ptr<ReaderPool> readers_;
  std::unique_ptr<WriteQueue> writer_;

  std::unique_ptr<os::EventFd> stop_listening_;
  std::atomic<bool> stopping_{false};  ///< set once, before stop_listening_ is raised
  std::thread listener_;
};

}  // namespace imex::partition
