/// The parts of the simulated machine (private to tests/sim).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "domain/broker.hpp"
#include "domain/channel_registry.hpp"
#include "domain/journal.hpp"
#include "domain_sim.hpp"

namespace imex::sim {

using namespace imex::domain;  // NOLINT: the simulation is about nothing else
using std::chrono::milliseconds;
using std::chrono::seconds;

class SimRandom : public Random {
 public:
  explicit SimRandom(std::uint64_t seed) : state_(seed * 0x9e37'79b9'7f4a'7c15ULL + 1) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e37'79b9'7f4a'7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31);
  }
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(next() >> 56);
  }
  bool chance(std::uint64_t one_in) { return next() % one_in == 0; }
  template <class T>
  std::size_t pick(const T& list) {
    return static_cast<std::size_t>(next() % list.size());
  }

 private:
  std::uint64_t state_;
};

/// What really is, whatever any daemon believes.
struct ExportTruth {
  int client = 0;
  std::uint64_t life = 0;  ///< of the client's process
  int domain = 0;
  std::uint32_t channel = 0;
  std::uint64_t gpu_uid = 0;
  std::uint32_t uid = 0;
  std::optional<Time> ended;
};

struct ClientExport {
  ExportId id = 0;
  Handle handle;
  std::uint32_t generation = 1;
  enum class Phase { kLive, kRevoking, kQuiescent } phase = Phase::kLive;
};

struct ClientImport {
  ImportId id = 0;
  Handle handle;
  std::size_t truth = 0;
  bool over = false;
  bool revoking = false;  ///< told to unmap
};

struct ClientSim {
  int index = 0;
  int daemon = 0;
  std::uint64_t life = 1;  ///< processes that had this place
  bool alive = true, hung = false;
  std::string workload;
  std::uint32_t uid = 0;
  ConnectionId connection = 0;  ///< 0: not connected
  bool opened = false;
  SessionId session = 0;
  Secret token{};
  std::uint32_t channel = 0;
  std::uint64_t gpu_uid = 0;
  std::uint32_t next_request = 1;
  std::map<std::uint32_t, std::pair<Message, bool>> asked;  ///< by request id; second: again
  std::vector<ClientExport> exports;
  std::vector<ClientImport> imports;
  std::vector<ExportId> owed;  ///< ended while the daemon was away
  std::size_t aborts = 0;
};

struct DaemonSim {
  int index = 0;
  int domain = 0;
  NodeId node = 0;
  bool alive = false;
  std::uint64_t life = 0;
  Time died{}, started{};
  std::unique_ptr<SimRandom> random;
  std::optional<Broker> broker;
  std::optional<ChannelRegistry> registry;
  JournalHeader header;
  std::vector<std::byte> disk;
  JournalState mirror;  ///< what the daemon believes it has written
  bool disk_full = false, journal_broken = false;
  bool expired = false;  ///< the journal says that its instance has ended
  std::set<FdToken> held;
  std::map<FdToken, int> pidfd_client;
  FdToken next_fd = 1;
  ConnectionId next_connection = 1;
  std::map<ConnectionId, int> clients;  ///< connection -> client
  std::map<int, ConnectionId> links;    ///< daemon -> connection
  std::map<SessionId, int> session_client;
  std::map<std::string, std::uint32_t> grants;  ///< workload -> channel
  std::uint64_t next_grant = 1;
  std::map<std::uint64_t, std::string> asked_grants;
  std::set<std::uint32_t> timer_armed;
};

class World {
 public:
  explicit World(const SimOptions& options);
  SimResult run();

 private:
  // time
  void at(Nanos delay, std::function<void()> action);
  void run_until(Time end);
  void note(std::string_view mark) { ++result_.marks[std::string(mark)]; }
  void trace(std::string text);
  void violate(std::string text);

  // daemons
  void start(int d);
  void crash(int d, std::string_view point);
  void maybe_crash(int d, std::string_view point);
  void stop_in_order(int d);
  void end_life(int d, Nanos away);
  void tell_instance_ended(int d, const Uuid& instance, Errc reason);
  void step(int d, BrokerEvent event);
  void run_effect(int d, const BrokerEffect& effect);
  void registry_step(int d, RegistryEvent event);
  void run_registry_effect(int d, const RegistryEffect& effect);
  bool append(int d, const JournalRecord& record);
  void arm_timer(int d);
  void ready_changed();
  void check_daemon(int d);
  std::vector<fabric::Gpu> gpus_of(int d) const;

  // links
  void connect(int a, int b);
  void disconnect(int a, int b);
  void link_send(int from, ConnectionId via, const SendFrame& frame);

  // clients
  void act(int c);
  void client_open(int c);
  void end_an_export_unheard(int c);
  void client_send(int c, Message message, std::size_t fds, bool again = false);
  void client_receives(int c, const SendFrame& sent);
  void client_reply(int c, std::uint32_t request, const Reply& reply, bool with_fds);
  void client_event(int c, const Event& event);
  void check_unmapped(int exporter, const Handle& handle);
  void client_disconnected(int c);
  void register_again(int c);
  void forget_session(int c);
  void die(int c);
  void respawn(int c);
  void check_grant(int c, const Handle& handle, std::size_t* truth);
  void check_told(bool final_check);
  void check_channels();
  void fault();
  void cut_off(int d);
  void job_ends(int domain, std::string_view workload);
  void wind_down();

  SimOptions options_;
  SimResult result_;
  SimRandom random_;
  Time now_{};
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t sequence_ = 0;
  std::vector<DaemonSim> daemons_;
  std::vector<ClientSim> clients_;
  std::map<std::uint64_t, fabric::Gpu> fabric_;  ///< by uid; all nodes
  Time fabric_changed_{};
  std::vector<ExportTruth> truths_;
  std::map<std::array<std::byte, 64>, std::size_t> truth_of_;
  std::vector<Handle> pool_;
  std::map<std::pair<int, int>, Time> link_clock_;  ///< keeps a link's frames in order
  bool faults_ = true;  ///< daemons, links and disks fail in this history
  bool winding_down_ = false;
  bool forgot_numbers_ = false;  ///< a daemon died that could not write its journal
  int cut_off_ = -1;             ///< the daemon that no other can reach; -1: none
};

}  // namespace imex::sim
