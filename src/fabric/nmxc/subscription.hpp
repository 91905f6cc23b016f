/// One stream of notifications, from Subscribe to its end.
#pragma once

#include <memory>

#include "inbox.hpp"
#include "session.hpp"

namespace imex::fabric::nmxc {

class Subscription {
 public:
  /// Cancels the stream and waits for its thread; nothing is put into the inbox after
  /// that.
  virtual ~Subscription() = default;
  Subscription() = default;
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  /// Everything goes into `inbox` under the number `stream`; borrows both.
  [[nodiscard]] static std::unique_ptr<Subscription> start(std::shared_ptr<Session> session,
                                                           Inbox& inbox, std::uint64_t stream,
                                                           std::uint32_t heartbeat_s);
};

}  // namespace imex::fabric::nmxc
