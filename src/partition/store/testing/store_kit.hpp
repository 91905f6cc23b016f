/// What tests of the store share: a fresh database of the backend under test, and an owner, a
/// tenant and a rack in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "partition/store/store.hpp"

namespace imex::partition::testing {

/// One database of its own. Opening it twice means a second replica, where the backend has that.
class TestDatabase {
 public:
  virtual ~TestDatabase() = default;
  [[nodiscard]] virtual StoreOptions options() const = 0;
  [[nodiscard]] virtual bool shared() const = 0;  ///< whether replicas can run
};
/// Defined by the backend that the test executable is linked with. Null: cannot be tested here,
/// and why was printed.
[[nodiscard]] std::unique_ptr<TestDatabase> make_database();

/// Ends the test when something that must work did not.
template <class T>
T must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().to_string();
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline const Actor kTester{"tester", "acme"};

/// Owner "nvidia", tenant "acme", a site with 4-GPU machines, an allocation, an endpoint.
struct World {
  Provider provider;
  Tenant tenant, other_tenant;
  Site site;
  InstanceType type;
  Allocation allocation;
  Endpoint endpoint;
  DomainId domain;
};
[[nodiscard]] World make_world(Store& store);
[[nodiscard]] LogicalPartition new_partition(const World& world, const std::string& name);
[[nodiscard]] Vpc new_vpc(const World& world, const std::string& name);

/// What a fabric manager would list: `trays` of 4 GPUs, uids 1000 and up, all in no partition.
[[nodiscard]] DomainObservation rack_view(const World& world, std::uint32_t trays, WallTime at);
/// The machine of a tray of rack_view().
[[nodiscard]] MachineId machine_of(std::uint32_t tray);

/// Puts an instance with all four GPUs in `partition` on a tray, as the service would.
struct Placed {
  Instance instance;
  std::vector<NvlinkInterface> interfaces;
};
[[nodiscard]] Placed place_instance(Store& store, const World& world, const Vpc& vpc,
                                    const LogicalPartition& partition, std::uint32_t tray,
                                    const std::string& name);

[[nodiscard]] WallTime at_second(std::int64_t second);

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    database_ = make_database();
    if (database_ == nullptr) GTEST_SKIP() << "no server binaries";
    store_ = must(Store::open(database_->options()));
  }
  [[nodiscard]] Store& store() { return *store_; }
  void reopen() {
    store_.reset();
    store_ = must(Store::open(database_->options()));
  }
  [[nodiscard]] Term term() {
    auto term = must(store().lead());
    EXPECT_TRUE(term.has_value());
    return term.value_or(Term{});
  }

  template <class T>
  std::optional<T> find(const typename KeyOf<T>::Type& id) {
    std::optional<T> found;
    must(store().read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(found, t.find<T>(id));
      return {};
    }));
    return found;
  }
  template <class T>
  std::vector<T> list(const ListQuery& query = {}) {
    std::vector<T> found;
    must(store().read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(found, t.list<T>(query));
      return {};
    }));
    return found;
  }
  template <class T>
  Result<void> insert(T record) {
    return store().write(kTester, [&](WriteTransaction& t) {
      T copy = record;
      return t.insert(copy);
    });
  }
  template <class T>
  Result<void> update(T record, const std::string& why = {}) {
    return store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      T copy = record;
      IMEX_TRY([[maybe_unused]] const bool changed, t.update(copy, why));
      return {};
    });
  }
  std::vector<AuditRecord> audit() {
    std::vector<AuditRecord> found;
    must(store().read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(found, t.audit_log(0, 100'000));
      return {};
    }));
    return found;
  }
  std::vector<StatusDetail> history(Kind kind, const std::string& id, std::uint64_t limit = 100) {
    std::vector<StatusDetail> found;
    must(store().read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(found, t.history(kind, id, limit));
      return {};
    }));
    return found;
  }

  std::unique_ptr<TestDatabase> database_;
  std::unique_ptr<Store> store_;
};

}  // namespace imex::partition::testing
