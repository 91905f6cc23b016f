#include "subscription.hpp"

#include <grpcpp/support/client_callback.h>

#include "answer.hpp"

namespace imex::fabric::nmxc {
namespace {

bool is_heartbeat(const pb::ServerNotification& notification) {
  return notification.has_domain_state_info();
}
bool is_heartbeat(const pb::DraftServerNotification& /*notification*/) { return false; }

template <class Request, class Notification>
class Stream final : public Subscription, private grpc::ClientReadReactor<Notification> {
 public:
  template <class Stub>
  Stream(std::shared_ptr<Session> session, Stub& stub, Request request, Inbox& inbox,
         std::uint64_t number)
      : session_(std::move(session)), request_(std::move(request)), inbox_(inbox), number_(number) {
    stub.async()->Subscribe(&context_, &request_, this);
    this->StartRead(&notification_);
    this->StartCall();
  }
  ~Stream() override {
    context_.TryCancel();
    const MutexLock lock(mutex_);
    // gRPC calls OnDone for every call that was started; until then it uses our members.
    while (!done_)
      static_cast<void>(
          is_done_.wait_until(mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(1)));
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;  // OnDone tells why
    if (notification_.has_subscription_response()) {
      const auto code =
          static_cast<NmxCode>(notification_.subscription_response().server_header().return_code());
      if (code != NmxCode::kSuccess) inbox_.refused(number_, code);
    }
    inbox_.heard(number_, read_event(notification_), is_heartbeat(notification_));
    this->StartRead(&notification_);
  }
  void OnDone(const grpc::Status& status) override {
    inbox_.ended(number_, status);
    const MutexLock lock(mutex_);
    done_ = true;
    is_done_.notify_all();
  }

  const std::shared_ptr<Session> session_;  ///< keeps the channel
  const Request request_;
  Inbox& inbox_;
  const std::uint64_t number_;
  grpc::ClientContext context_;
  Notification notification_;  ///< of gRPC's threads, one at a time
  Mutex mutex_;
  CondVar is_done_;
  bool done_ IMEX_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<Subscription> Subscription::start(std::shared_ptr<Session> session, Inbox& inbox,
                                                  std::uint64_t stream, std::uint32_t heartbeat_s) {
  if (session->dialect() == Dialect::kDraft) {
    pb::DraftSubscribeRequest request;
    request.set_gateway_id(session->gateway_id());
    DraftStub& stub = session->draft();
    return std::make_unique<Stream<pb::DraftSubscribeRequest, pb::DraftServerNotification>>(
        std::move(session), stub, std::move(request), inbox, stream);
  }
  pb::SubscribeRequest request;
  request.set_gateway_id(session->gateway_id());
  request.set_heart_beat_rate(heartbeat_s);
  CurrentStub& stub = session->current();
  return std::make_unique<Stream<pb::SubscribeRequest, pb::ServerNotification>>(
      std::move(session), stub, std::move(request), inbox, stream);
}

}  // namespace imex::fabric::nmxc
