/// The ground truth of one NVLink domain, and a fabric manager in front of it that can do
/// everything that managers do wrong. Independent of the rack's simulator and of the reconciler.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace imex::partition_sim {

/// One stream of choices; the seed fixes everything.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31U);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool percent(std::uint64_t chance) { return below(100) < chance; }

 private:
  std::uint64_t state_;
};

struct TruthMember {
  /// Put there by somebody else than the controller.
  bool planted = false;
  std::int64_t since_ns = 0;
};

struct TruthPartition {
  std::string name;
  /// The name that was asked for: managers may keep another one.
  std::string label;
  /// Made by somebody else than the controller.
  bool foreign = false;
  std::map<std::uint64_t, TruthMember> members;
};

/// What is so, whatever anybody says.
using Truth = std::map<std::uint32_t, TruthPartition>;

/// Where the GPU is; 0: in no partition.
[[nodiscard]] std::uint32_t place_of(const Truth& truth, std::uint64_t gpu);

enum class Fault : std::uint8_t {
  kNone,
  kRefused,
  /// No answer, no effect.
  kLost,
  /// No answer, but done.
  kSilent,
  /// No answer, done seconds later.
  kLate,
  /// Done for the first half of the GPUs, and answered with success or with an error.
  kHalfDone,
  kHalfRefused,
  /// Answered with success, nothing done.
  kPretended,
  /// Answered with an error, but done.
  kErrorApplied,
  /// A created partition gets another name.
  kRenamed,
  /// No multicast groups left.
  kExhausted,
};
inline constexpr int kFaults = 11;

enum class Call : std::uint8_t { kCreate, kAdd, kRemove, kDelete };

struct Request {
  Call call = Call::kCreate;
  std::uint32_t id = 0;
  std::string name{};
  std::vector<std::uint64_t> gpus{};
  std::uint32_t groups = 0;
};

enum class Said : std::uint8_t { kDone, kNothing, kInUse, kExhausted, kNoSuchPartition, kError };

struct Answer {
  Said said = Said::kDone;
  std::uint32_t id = 0;
};

/// What a list shows of a GPU or a partition.
struct ListedPartition {
  std::uint32_t id = 0;
  std::string name;
  std::vector<std::uint64_t> gpus;
};
struct ListedGpu {
  std::uint64_t uid = 0;
  std::uint32_t partition = 0;
};

/// One observation: what was true when each list was asked for, and whether both lists lied.
struct Look {
  std::int64_t begun_ns = 0;
  Truth at_partitions;
  Truth at_gpus;
  bool lied_deeply = false;
};

class Fabric {
 public:
  /// `reuse_ids`: the lowest free id is handed out again. `bound_ns`: how long GPUs refuse to join
  /// after they left.
  Fabric(std::vector<std::uint64_t> gpus, bool reuse_ids, std::int64_t bound_ns);

  // ---- As a manager
  Answer call(const Request& request, Fault fault, std::int64_t now_ns, std::int64_t late_ns);
  /// A stale list is how it was some changes ago.
  std::vector<ListedPartition> list_partitions(std::int64_t now_ns, std::size_t stale_by);
  std::vector<ListedGpu> list_gpus(std::size_t stale_by, bool lied_deeply);
  [[nodiscard]] std::uint32_t life() const { return life_; }

  // ---- As the world: what happens behind the controller's back
  void tick(std::int64_t now_ns);
  void plant(std::uint64_t gpu, std::uint32_t partition, std::int64_t now_ns);
  std::uint32_t make_foreign(const std::string& name);
  void drop(std::uint32_t partition);
  void restart() { ++life_; }
  void show(std::uint64_t gpu, bool listed);
  /// Everything in the default partition, or nothing anywhere.
  void forget_all(bool with_default, std::int64_t now_ns);
  void finish_late() { late_.clear(); }

  // ---- For checkers
  [[nodiscard]] const Truth& truth() const { return truth_; }
  [[nodiscard]] const std::deque<Look>& looks() const { return looks_; }
  [[nodiscard]] bool is_listed(std::uint64_t gpu) const { return gpus_.at(gpu); }
  /// Deletions of foreign partitions, and removals of unknown GPUs from them, by the controller.
  [[nodiscard]] const std::vector<std::string>& trespasses() const { return trespasses_; }
  /// When one of the controller's calls last changed the GPU's place, in time; 0: never.
  [[nodiscard]] std::int64_t moved_by_controller(std::uint64_t gpu) const;
  [[nodiscard]] const std::vector<std::uint64_t>& strangers() const { return strangers_; }
  void add_stranger(std::uint64_t gpu);

 private:
  struct Late {
    std::int64_t at_ns;
    Request request;
  };

  Answer apply(const Request& request, std::size_t gpus_max, bool in_time, std::int64_t now_ns);
  Answer create(const Request& request, const std::vector<std::uint64_t>& gpus,
                std::int64_t now_ns);
  [[nodiscard]] bool joinable(const std::vector<std::uint64_t>& gpus, std::uint32_t target,
                              std::int64_t now_ns) const;
  void take_out(std::uint64_t gpu, std::int64_t now_ns);
  std::uint32_t new_id();
  void changed();

  Truth truth_;
  std::map<std::uint64_t, bool> gpus_;  // listed
  std::deque<Truth> past_;              // newest first, truth_ included
  std::deque<Look> looks_;
  std::vector<Late> late_;
  std::map<std::uint64_t, std::int64_t> bound_until_;
  std::map<std::uint64_t, std::int64_t> moved_;
  std::vector<std::string> trespasses_;
  std::vector<std::uint64_t> strangers_;
  std::uint32_t next_id_ = 1;
  std::uint32_t life_ = 1;
  bool reuse_ids_;
  std::int64_t bound_ns_;
  bool rename_ = false;
};

inline constexpr std::uint32_t kDefaultId = 32'766;

}  // namespace imex::partition_sim
