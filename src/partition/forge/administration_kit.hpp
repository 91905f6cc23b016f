/// What tests of Administration share: a store with a rack of two trays, an owner and two tenants.
#pragma once

#include <string>

#include <gmock/gmock.h>

#include "partition/forge/administration.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::forge {

class AdministrationTest : public partition::testing::StoreTest {
 protected:
  using World = partition::testing::World;
  static constexpr std::uint32_t kTrays = 2;

  void SetUp() override {
    StoreTest::SetUp();
    world_ = partition::testing::make_world(store());
    observe_rack();
    administration_.emplace(store(),
                            Administration::Options{.site = world_.site.id, .observe = observer()});
  }
  [[nodiscard]] Administration& admin() { return *administration_; }

  /// The rack as nobody has partitioned it.
  void observe_rack() {
    partition::testing::must(store().write_observation(
        term(), world_.endpoint.id,
        partition::testing::rack_view(world_, kTrays, partition::testing::at_second(++seconds_))));
  }
  virtual ObserveFabric observer() { return {}; }

  LogicalPartition partition(const std::string& name, const std::string& org = "acme") {
    return partition::testing::must(admin().create_partition(kOperator, {.org = org, .name = name}))
        .record;
  }
  /// Ready, on a tray, with all four GPUs in the partition, which has them.
  Instance ready_instance(const LogicalPartition& partition, const std::string& name,
                          std::uint32_t tray = 0) {
    auto vpc = partition::testing::new_vpc(world_, "vpc of " + name);
    partition::testing::must(insert(vpc));
    auto placed = partition::testing::place_instance(store(), world_, vpc, partition, tray, name);
    for (NvlinkInterface& interface : placed.interfaces) {
      interface.status = Status::kReady;
      interface.domain = world_.domain;
      interface.gpu_uid = 1000 + std::uint64_t{tray} * 4 + interface.device_instance;
      partition::testing::must(update(interface));
    }
    placed.instance.status = Status::kReady;
    placed.instance.provisioned = true;
    partition::testing::must(update(placed.instance));
    return *find<Instance>(placed.instance.id);
  }

  static inline const Actor kOperator{"cn:alice", ""};
  World world_;
  std::optional<Administration> administration_;
  std::int64_t seconds_ = 1'000'000;
};

/// A result that is an error of `code` whose text has `part`.
MATCHER_P2(FailsWith, code, part, "") {
  if (arg.has_value()) {
    *result_listener << "succeeds";
    return false;
  }
  *result_listener << arg.error().to_string();
  return arg.error().code == code && arg.error().to_string().find(part) != std::string::npos;
}
MATCHER(Succeeds, "") {
  if (!arg.has_value()) *result_listener << arg.error().to_string();
  return arg.has_value();
}

}  // namespace imex::partition::forge
