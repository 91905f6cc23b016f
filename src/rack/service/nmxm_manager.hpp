/// The manager over many domains (NMX-M): inventory, partitions through operations, users. Maps a
/// request to a response and lets time pass; the HTTP server is somebody else's.
///
/// Thread-safe. Takes the lock of a domain while it holds its own, never the other way round.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/mutex.hpp"
#include "nmxm_objects.hpp"

namespace imex::rack {

struct NmxmRequest {
  std::string method;  ///< "GET", "POST", "PUT", "DELETE"
  std::string path;    ///< without the query
  std::vector<std::pair<std::string, std::string>> query{};
  std::string body{};
  std::string authorization{};  ///< the header's value
};
struct NmxmResponse {
  unsigned status = 200;
  std::string body{};
  std::string content_type = "application/json";
  std::string location{};  ///< header Location, if not empty
  bool ask_credentials = false;
};

struct NmxmOptions {
  std::string ro_password = "ro-password", rw_password = "rw-password";
  Nanos pending{std::chrono::milliseconds(50)}, in_progress{std::chrono::milliseconds(50)};
  Nanos lag{0};          ///< age that a copy of a domain may have
  bool interop = false;  ///< bends to an existing client (nmx-m.md, section 7)
};

class NmxmManager {
 public:
  struct Controller {
    DomainHost* host;
    std::string address;
    std::uint16_t port;
  };
  /// The hosts must outlive the manager.
  NmxmManager(NmxmOptions options, std::vector<Controller> controllers);

  [[nodiscard]] NmxmResponse answer(const NmxmRequest& request, Time now,
                                    std::chrono::system_clock::time_point wall);
  /// Runs what is due; returns when it wants to be called again.
  [[nodiscard]] Time pulse(Time now, std::chrono::system_clock::time_point wall);

  [[nodiscard]] Result<std::uint64_t> inject(Fault fault, Time now);
  /// Nothing named: all. How many were cleared.
  std::size_t clear_faults(std::optional<std::uint64_t> id, std::optional<FaultKind> kind);
  [[nodiscard]] std::vector<Fault> faults();

 private:
  struct Service {
    std::string id, type, name, description, address, status;
    std::uint16_t port = 0;
    unsigned domain = 0;  ///< of a controller that is ours
    bool ours = false;
    std::string since;
  };
  struct Entry {
    Controller controller;
    DomainCopy copy;
    Time taken{0};
    bool registered = true;
    unsigned registration = 1;
    std::string since;
  };
  /// How a fault changes what becomes of an operation.
  enum class Fate : std::uint8_t { kHonest, kStuck, kLiesDone, kLiesFailed, kHalf };
  struct Operation {
    std::string id, status = "pending", step = "recorded", method, uri;
    nlohmann::json body, data;
    std::string error, details, created, updated;
    unsigned percentage = 0;
    unsigned domain = 0;
    std::string partition;     ///< entity id of the target; empty for a create
    std::uint32_t number = 0;  ///< the network's id of the target
    std::string name;          ///< of a create
    std::vector<GpuRef> members;
    Time begins{0}, ends{0}, hidden_until{0};
    Fate fate = Fate::kHonest;
    bool gone = false, cancel = false;
    [[nodiscard]] bool terminal() const {
      return status == "completed" || status == "failed" || status == "cancelled";
    }
  };
  struct Known {
    std::string id, created;
  };
  using Moment = std::chrono::system_clock::time_point;

  // nmxm_manager.cpp
  void advance(Time now, Moment wall) IMEX_REQUIRES(mutex_);
  void refresh(Entry& entry, Time now) IMEX_REQUIRES(mutex_);
  [[nodiscard]] bool lost(unsigned domain) IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse route(const NmxmRequest& request, Time now, Moment wall)
      IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse inventory(const NmxmRequest& request, const std::string& collection,
                                       const std::string& rest, Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse annotate(const NmxmRequest& request, nlohmann::json object,
                                      Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] nlohmann::json objects(const std::string& collection,
                                       const std::set<std::string>& domains) IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse services(const NmxmRequest& request, const std::string& id,
                                      Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse add_service(const NmxmRequest& request, Moment wall)
      IMEX_REQUIRES(mutex_);
  [[nodiscard]] nlohmann::json service_object(const Service& service) IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse kpis(const NmxmRequest& request) IMEX_REQUIRES(mutex_);
  // nmxm_partitions.cpp
  [[nodiscard]] NmxmResponse partitions(const NmxmRequest& request, const std::string& id, Time now,
                                        Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] nlohmann::json partition_object(unsigned domain, const Partition& partition,
                                                PartitionHealth health, Moment wall)
      IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse change_partition(const NmxmRequest& request, const std::string& id,
                                              Time now, Moment wall) IMEX_REQUIRES(mutex_);
  /// The error response of members that do not fit, or nothing. Fills in domain and members.
  [[nodiscard]] std::optional<NmxmResponse> read_members(const nlohmann::json& members,
                                                         Operation& operation, PartitionKind* kind)
      IMEX_REQUIRES(mutex_);
  [[nodiscard]] NmxmResponse accept(Operation operation, const NmxmRequest& request, Time now,
                                    Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] const Known& known_partition(unsigned domain, std::uint32_t number, Moment wall)
      IMEX_REQUIRES(mutex_);
  // nmxm_operations.cpp
  [[nodiscard]] NmxmResponse operations(const NmxmRequest& request, const std::string& id, Time now,
                                        Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] nlohmann::json operation_object(const Operation& operation) const;
  void step(Operation& operation, Time now, Moment wall) IMEX_REQUIRES(mutex_);
  [[nodiscard]] ReturnCode execute(Operation& operation, Time now) IMEX_REQUIRES(mutex_);
  [[nodiscard]] std::string next_id(Entity kind) IMEX_REQUIRES(mutex_);

  const NmxmOptions options_;
  const std::string ro_credentials_, rw_credentials_;  ///< values of the header
  Mutex mutex_;
  std::vector<Entry> entries_ IMEX_GUARDED_BY(mutex_);
  std::vector<Service> services_ IMEX_GUARDED_BY(mutex_);
  std::deque<Operation> operations_ IMEX_GUARDED_BY(mutex_);
  std::map<std::pair<unsigned, std::uint32_t>, Known> known_ IMEX_GUARDED_BY(mutex_);
  std::map<std::pair<unsigned, std::uint32_t>, Time> hidden_
      IMEX_GUARDED_BY(mutex_);  ///< op-lies-done
  std::map<std::string, std::pair<std::string, std::string>> annotations_ IMEX_GUARDED_BY(mutex_);
  FaultSet faults_ IMEX_GUARDED_BY(mutex_);
  os::SystemRandom random_;
  std::uint64_t ids_given_ IMEX_GUARDED_BY(mutex_) = 0;
  const Uuid self_ = os::random_uuid();
};

/// The manager's error object; `code` is ours for each status.
[[nodiscard]] NmxmResponse nmxm_error(unsigned status, std::string_view description);
[[nodiscard]] NmxmResponse nmxm_json(unsigned status, const nlohmann::json& body);
/// The body as an object without other keys than these. Errors: kInvalidArgument.
[[nodiscard]] Result<nlohmann::json> nmxm_body(const std::string& body,
                                               const std::set<std::string>& keys);

}  // namespace imex::rack
