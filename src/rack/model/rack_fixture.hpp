/// Test help: one domain, its clock, and short words for what tests ask of it.
#pragma once

#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rack/domain.hpp"

namespace imex::rack {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(engine_() >> 56U);
  }

 private:
  std::mt19937_64 engine_;
};

class RackTest : public testing::Test {
 protected:
  /// A domain without its default partition, so that GPUs are free.
  Domain& make(const std::string& topology = "nvl72",
               std::vector<std::string> switches = {"default-partition=absent"}) {
    DomainOptions options;
    options.topology = *find_topology(topology);
    for (const std::string& setting : switches) {
      EXPECT_TRUE(set_personality(options.personality, setting)) << setting;
    }
    domain_ = std::make_unique<Domain>(options, random_, now_);
    return *domain_;
  }
  Domain& domain() { return *domain_; }
  [[nodiscard]] Time now() const { return now_; }
  void pass(Nanos time) {
    now_ = now_ + time;
    domain_->advance(now_);
  }
  std::uint64_t uid(unsigned tray, std::uint32_t module) {
    return domain_->uid_of(tray * domain_->shape().gpus_per_tray + module - 1);
  }
  std::vector<GpuRef> tray(unsigned number) {
    std::vector<GpuRef> gpus;
    for (std::uint32_t module = 1; module <= domain_->shape().gpus_per_tray; ++module)
      gpus.emplace_back(uid(number, module));
    return gpus;
  }
  ChangeResult create(const std::string& name, std::vector<GpuRef> gpus, std::uint32_t groups = 0,
                      std::uint32_t id = 0) {
    return domain_->change(
        CreatePartition{name, std::move(gpus), ResiliencyMode::kDefault, groups, id}, now_);
  }
  ReturnCode create_code(const std::string& name, std::vector<GpuRef> gpus,
                         std::uint32_t groups = 0, std::uint32_t id = 0) {
    return create(name, std::move(gpus), groups, id).code;
  }
  ReturnCode add(std::uint32_t id, std::vector<GpuRef> gpus, const std::string& name = {}) {
    return domain_->change(UpdatePartition{true, id, name, std::move(gpus)}, now_).code;
  }
  ReturnCode take(std::uint32_t id, std::vector<GpuRef> gpus, const std::string& name = {}) {
    return domain_->change(UpdatePartition{false, id, name, std::move(gpus)}, now_).code;
  }
  ReturnCode drop(std::uint32_t id, const std::string& name = {}) {
    return domain_->change(DeletePartition{id, name}, now_).code;
  }
  /// Sets a fault from now on; the test fails if it is refused.
  std::uint64_t fault(FaultKind kind, Fault more = {}) {
    more.kind = kind;
    more.starts = more.starts.ns == 0 ? now_ : more.starts;
    const auto id = domain_->inject(more, now_);
    EXPECT_TRUE(id) << (id ? "" : id.error().message);
    return id.value_or(0);
  }
  [[nodiscard]] NvmlGpu nvml(unsigned tray_number, std::uint32_t module) {
    for (const NvmlGpu& gpu : domain_->nvml(tray_number)) {
      if (gpu.module == module) return gpu;
    }
    ADD_FAILURE() << "no module " << module << " on tray " << tray_number;
    return {};
  }
  [[nodiscard]] std::vector<std::uint32_t> listed() {
    std::vector<std::uint32_t> ids;
    for (const Partition* partition : domain_->partitions()) ids.push_back(partition->id);
    return ids;
  }
  [[nodiscard]] GpuHealth health(unsigned tray_number, std::uint32_t module) {
    for (const GpuView& gpu : domain_->gpus()) {
      if (gpu.uid == uid(tray_number, module)) return gpu.health;
    }
    ADD_FAILURE() << "not listed";
    return {};
  }
  [[nodiscard]] PartitionHealth partition_health(std::uint32_t id) {
    const Partition* found = domain_->table().find(id);
    return found == nullptr ? PartitionHealth::kUnknown : domain_->partition_health(*found);
  }

 private:
  SeededRandom random_{42};
  Time now_{1'000'000'000};
  std::unique_ptr<Domain> domain_;
};

}  // namespace imex::rack
