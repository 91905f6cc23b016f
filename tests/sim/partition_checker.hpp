/// The rules that must hold after each step. Reads the fabric's ground truth and the API's answers,
/// and shares no code with the reconciler.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "partition_fabric.hpp"

namespace imex::partition_sim {

enum class Shown : std::uint8_t { kPending, kReady, kUnknown };

/// What the API says at one moment.
struct InterfaceAnswer {
  std::uint64_t gpu = 0;
  /// UUID of the logical partition.
  std::string partition;
  std::string tenant;
  Shown shown = Shown::kPending;
  /// Time of the observation that it rests on.
  std::int64_t observed_ns = 0;
};
struct MachineAnswer {
  std::string id;
  std::vector<std::uint64_t> gpus;
  /// Whose it is, until it is offered again; empty: nobody's.
  std::string tenant;
  bool releasing = false;
  bool offered = false;
  /// It was offered before.
  bool known = false;
};
struct PartitionAnswer {
  std::string id;
  std::string tenant;
  bool deleted = false;
  /// A deleted one that the API no longer lists.
  bool gone = false;
};
struct Answers {
  std::int64_t now_ns = 0;
  std::int64_t interval_ns = 0;
  std::vector<InterfaceAnswer> interfaces;
  std::vector<MachineAnswer> machines;
  std::vector<PartitionAnswer> partitions;
};

class Checker {
 public:
  /// Empty, or which rule was broken and how.
  [[nodiscard]] std::string after_step(const Fabric& fabric, const Answers& answers);
  /// Once faults have stopped and time has passed.
  [[nodiscard]] static std::string at_rest(const Fabric& fabric, const Answers& answers);

 private:
  [[nodiscard]] static std::string isolation(const Fabric& fabric, const Answers& answers);
  [[nodiscard]] static std::string readiness(const Fabric& fabric, const Answers& answers);
  [[nodiscard]] std::string offers(const Fabric& fabric, const Answers& answers);

  std::map<std::string, bool> offered_;
};

}  // namespace imex::partition_sim
