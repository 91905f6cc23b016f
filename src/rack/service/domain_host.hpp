/// One domain as the service runs it: the model behind a lock, its subscribers, its files. gRPC's
/// threads and the loop both come here; nobody holds the lock for longer than one call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nmx_c/nmx_c.pb.h>

#include "base/mutex.hpp"
#include "log/log.hpp"
#include "net/event_loop.hpp"
#include "os/random.hpp"
#include "rack/domain.hpp"

namespace imex::rack {

/// One open stream of notifications. Calls come with the host's lock held.
class Subscriber {
 public:
  Subscriber() = default;
  virtual ~Subscriber() = default;
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;
  virtual void tell(const ::nmx_c::ServerNotification& note) = 0;
  /// The controller is gone for this client.
  virtual void end() = 0;

  std::string gateway;
  bool own_changes = false;
  Nanos beat{0};  ///< 0: no heartbeats
  Time next_beat = kNever;
};

struct HostFiles {
  std::string state;     ///< empty: in memory
  std::string tray_dir;  ///< empty: none
};

class DomainHost {
 public:
  static constexpr std::size_t kSubscribersMax = 256;

  /// `wake` is called when the loop should look again at next_change(); any thread.
  DomainHost(DomainOptions options, HostFiles files, log::Logger& log, std::function<void()> wake);

  /// Reads the state file, if there is one, and writes the tray files. Errors: the state file is
  /// damaged or of another rack.
  [[nodiscard]] Result<void> open();

  os::SystemRandom random;  ///< the domain's; before it
  Mutex mutex;
  Domain domain IMEX_GUARDED_BY(mutex);

  /// After any change: tells subscribers, saves, rewrites tray files. `change`: what a client did,
  /// for the others; events of partitions are left out then, because it says the same.
  void settle(const ::nmx_c::ServerNotification* change, const std::string& gateway)
      IMEX_REQUIRES(mutex);
  void subscribe(std::shared_ptr<Subscriber> subscriber) IMEX_REQUIRES(mutex);
  void unsubscribe(const Subscriber* subscriber) IMEX_REQUIRES(mutex);
  [[nodiscard]] std::size_t subscriber_count() const IMEX_REQUIRES(mutex) {
    return subscribers_.size();
  }
  void end_streams() IMEX_REQUIRES(mutex);

  /// On the loop: lets time pass, sends heartbeats. Returns when it wants to be called again.
  [[nodiscard]] Time pulse(Time now);
  /// Forgets what was saved; the running state stays.
  void forget() IMEX_REQUIRES(mutex);

 private:
  void tell_events(bool without_partitions) IMEX_REQUIRES(mutex);
  void tell_all(const ::nmx_c::ServerNotification& note) IMEX_REQUIRES(mutex);
  void save() IMEX_REQUIRES(mutex);
  void write_trays() IMEX_REQUIRES(mutex);

  const HostFiles files_;
  log::Logger& log_;
  const std::function<void()> wake_;
  std::vector<std::shared_ptr<Subscriber>> subscribers_ IMEX_GUARDED_BY(mutex);
  std::uint64_t settled_ IMEX_GUARDED_BY(mutex) = 0;  ///< revision that was saved and shown
  std::string saved_text_ IMEX_GUARDED_BY(mutex);
  std::vector<std::string> tray_texts_ IMEX_GUARDED_BY(mutex);
};

}  // namespace imex::rack
