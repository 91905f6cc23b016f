#include "subscription.hpp"

#include <thread>

#include <grpcpp/support/sync_stream.h>

#include "answer.hpp"
#include "os/thread.hpp"

namespace imex::fabric::nmxc {
namespace {

bool is_heartbeat(const pb::ServerNotification& notification) {
  return notification.has_domain_state_info();
}
bool is_heartbeat(const pb::DraftServerNotification& /*notification*/) { return false; }

/// Reads on a thread of its own: a reader that blocks is ended by cancelling its call.
template <class Request, class Notification>
class Stream final : public Subscription {
 public:
  template <class Stub>
  Stream(std::shared_ptr<Session> session, Stub& stub, Request request, Inbox& inbox,
         std::uint64_t number)
      : session_(std::move(session)), inbox_(inbox), number_(number) {
    const os::SignalsBlocked blocked;
    thread_ = std::thread([this, &stub, sent = std::move(request)] {
      os::name_this_thread("nmxc-stream");
      read_all(*stub.Subscribe(&context_, sent));
    });
  }
  ~Stream() override {
    context_.TryCancel();
    thread_.join();
  }

 private:
  void read_all(grpc::ClientReader<Notification>& reader) {
    Notification notification;
    while (reader.Read(&notification)) {
      if (notification.has_subscription_response()) {
        const auto code = static_cast<NmxCode>(
            notification.subscription_response().server_header().return_code());
        if (code != NmxCode::kSuccess) inbox_.refused(number_, code);
      }
      inbox_.heard(number_, read_event(notification), is_heartbeat(notification));
    }
    inbox_.ended(number_, reader.Finish());
  }

  const std::shared_ptr<Session> session_;  ///< keeps the channel
  Inbox& inbox_;
  const std::uint64_t number_;
  grpc::ClientContext context_;
  std::thread thread_;
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
