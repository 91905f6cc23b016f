// Small histories, all of them: each fault at each call, and a crash between each two steps.
#include <gtest/gtest.h>

#include "partition_world.hpp"

namespace imex::partition_sim {
namespace {

/// Two tenants, two machines of two GPUs. Tenant 1 has both GPUs of machine 1 in its first
/// partition; they move to its second, then the machine is given up and tenant 2 takes it.
class Scene {
 public:
  Scene() : world_({.seed = 3, .machines = 2, .random_faults = false}) {
    store().create_partition(1);
    store().create_partition(1);
    store().create_partition(2);
  }

  std::string run(std::size_t crash_after) {
    crash_after_ = crash_after;
    wait([&] { return store().is_offered(0) && store().is_offered(1); });
    act([&] { return store().take(0, 1); });
    act([&] { return store().put(0, 0, 1) && store().put(0, 1, 1); });
    settle();
    act([&] { return store().put(0, 0, 2) && store().put(0, 1, 2); });
    settle();
    act([&] { return store().give_up(0); });
    wait([&] { return store().is_offered(0); });
    act([&] { return store().take(0, 2); });
    act([&] { return store().put(0, 0, 1) && store().put(0, 1, 1); });
    if (broken_.empty()) broken_ = world_.come_to_rest();
    return broken_;
  }

  Store& store() { return world_.store(); }
  World& world() { return world_; }
  [[nodiscard]] std::size_t driven() const { return driven_; }

 private:
  void drive() {
    if (broken_.empty() && driven_++ == crash_after_) broken_ = world_.crash();
    if (broken_.empty()) broken_ = world_.drive();
  }
  template <class Action>
  void act(Action action) {
    if (!broken_.empty()) return;
    if (!action()) broken_ = "scene: the API refused";
    world_.wake();
  }
  template <class Condition>
  void wait(Condition condition) {
    for (int i = 0; i < 2'000 && broken_.empty() && !condition(); ++i) drive();
    if (broken_.empty() && !condition()) broken_ = "scene: waited in vain";
  }
  /// Long enough for one pass that acts and looks again.
  void settle() {
    for (int i = 0; i < 14; ++i) drive();
  }

  World world_;
  std::string broken_;
  std::size_t crash_after_ = 0;
  std::size_t driven_ = 0;
};

constexpr std::size_t kNever = static_cast<std::size_t>(-1);

TEST(PartitionExhaustiveTest, EachFaultAtEachCall) {
  Scene plain;
  ASSERT_EQ(plain.run(kNever), "");
  const std::size_t calls = plain.world().calls_made();
  ASSERT_GE(calls, 5U);
  for (std::size_t call = 0; call < calls + 2; ++call) {
    for (int fault = 1; fault < kFaults; ++fault) {
      Scene scene;
      scene.world().arm(call, static_cast<Fault>(fault));
      ASSERT_EQ(scene.run(kNever), "") << "call " << call << ", fault " << fault;
    }
  }
}

TEST(PartitionExhaustiveTest, EachPairOfFaultsInARow) {
  for (std::size_t call = 0; call < 6; ++call) {
    for (int first = 1; first < kFaults; ++first) {
      for (int second = 1; second < kFaults; ++second) {
        Scene scene;
        scene.world().arm(call, static_cast<Fault>(first));
        scene.world().arm(call + 1, static_cast<Fault>(second));
        ASSERT_EQ(scene.run(kNever), "") << "call " << call << ": " << first << ", " << second;
      }
    }
  }
}

TEST(PartitionExhaustiveTest, CrashBetweenEachTwoStepsWithEachFault) {
  for (int fault = 0; fault < kFaults; ++fault) {
    for (std::size_t crash = 0; crash < 60; ++crash) {
      for (std::size_t call = 0; call < 5; ++call) {
        Scene scene;
        scene.world().arm(call, static_cast<Fault>(fault));
        ASSERT_EQ(scene.run(crash), "")
            << "crash " << crash << ", call " << call << ", fault " << fault;
      }
    }
  }
}

}  // namespace
}  // namespace imex::partition_sim
