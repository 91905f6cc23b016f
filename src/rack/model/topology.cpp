#include "rack/topology.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace imex::rack {

namespace {

// One step of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t split_mix(std::uint64_t value) noexcept {
  value += 0x9e37'79b9'7f4a'7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11ebULL;
  return value ^ (value >> 31U);
}

Topology nvl72() {
  Topology shape;
  shape.name = "gb200_nvl72r1_c2g4_topology";
  return shape;
}

Topology nvl36() {
  Topology shape;
  shape.name = "gb200_nvl36r1_c2g4_topology";
  shape.compute_trays = 9;
  shape.trays_below = 4;
  return shape;
}

/// Two cabled NVL36 racks: the half of each chip's ports that no GPU uses goes to the other rack.
Topology nvl36x2() {
  Topology shape = nvl36();
  shape.name = "gb200_nvl72r2_c2g4_topology";
  shape.chassis = 2;
  shape.trunks_per_chip = 36;
  return shape;
}

struct Setting {
  std::string_view key;
  unsigned* value;
  unsigned min, max;
};

Result<void> read_setting(std::string_view text, std::initializer_list<Setting> settings) {
  const auto equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  for (const Setting& setting : settings) {
    if (setting.key != key || equals == std::string_view::npos) continue;
    const std::string_view number = text.substr(equals + 1);
    unsigned value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value < setting.min ||
        value > setting.max) {
      return fail(Errc::kInvalidArgument, fmt::format("topology: {}: want a number from {} to {}",
                                                      key, setting.min, setting.max));
    }
    *setting.value = value;
    return {};
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("topology: '{}': want trays=N, gpus=N, switches=N or chips=N", text));
}

Result<Topology> custom(std::string_view text) {
  Topology shape;
  shape.name = fmt::format("custom:{}", text);
  while (!text.empty()) {
    const auto comma = text.find(',');
    IMEX_CHECK_OK(read_setting(text.substr(0, comma), {{"trays", &shape.compute_trays, 1, 64},
                                                       {"gpus", &shape.gpus_per_tray, 1, 8},
                                                       {"switches", &shape.switch_trays, 1, 16},
                                                       {"chips", &shape.chips_per_tray, 1, 4}}));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  shape.ports_per_chip = std::max(72U, shape.access_ports());
  shape.trays_below = (shape.compute_trays - 1) / 2;
  return shape;
}

}  // namespace

TrayPlace Topology::compute_tray(unsigned tray) const noexcept {
  const unsigned in = tray % compute_trays;
  const unsigned slot = in < trays_below ? in + 1 : in + switch_trays + 1;
  return {{tray / compute_trays + 1, slot, 1}, in + tray_index_base, tray / compute_trays};
}

TrayPlace Topology::switch_tray(unsigned tray) const noexcept {
  const unsigned in = tray % switch_trays;
  return {{tray / switch_trays + 1, trays_below + in + 1, 1},
          in + tray_index_base,
          tray / switch_trays};
}

GpuPlace Topology::place_of_gpu(unsigned gpu) const noexcept {
  return {compute_tray(tray_of_gpu(gpu)).location, module_of_gpu(gpu)};
}

unsigned Topology::chip_of_link(unsigned gpu, unsigned link) const noexcept {
  return tray_of_gpu(gpu) / compute_trays * chips_per_chassis() + link;
}

unsigned Topology::port_of_gpu(unsigned gpu) const noexcept {
  return gpus_per_tray * (tray_of_gpu(gpu) % compute_trays) + module_of_gpu(gpu);
}

Result<Topology> find_topology(std::string_view name) {
  constexpr std::string_view kCustom = "custom:";
  if (name.starts_with(kCustom)) return custom(name.substr(kCustom.size()));
  for (Topology shape : {nvl72(), nvl36(), nvl36x2()}) {
    if (name == shape.name) return shape;
  }
  if (name == "nvl72") return nvl72();
  if (name == "nvl36") return nvl36();
  if (name == "nvl36x2") return nvl36x2();
  if (name == "gb300_nvl72r1_c2g4_topology") {
    Topology shape = nvl72();
    shape.name = name;
    return shape;
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("topology '{}': want nvl72, nvl36, nvl36x2 or custom:trays=N,gpus=N,"
                          "switches=N,chips=N",
                          name));
}

Identities::Identities(std::uint64_t seed, unsigned index, bool small)
    : seed_(seed), index_(index), small_(small) {}

std::uint64_t Identities::mix(unsigned kind, std::uint64_t number) const noexcept {
  return split_mix(split_mix(split_mix(seed_ ^ (std::uint64_t{index_} << 32U)) + kind) + number);
}

Uuid Identities::domain_uuid() const {
  Uuid id;
  for (unsigned i = 0; i < 16; ++i) {
    id.bytes.at(i) = static_cast<std::byte>(mix(1, i / 8) >> (8 * (i % 8)));
  }
  id.bytes[6] = (id.bytes[6] & std::byte{0x0F}) | std::byte{0x40};  // version 4
  id.bytes[8] = (id.bytes[8] & std::byte{0x3F}) | std::byte{0x80};  // variant
  return id;
}

std::string Identities::chassis_serial(unsigned chassis) const {
  if (small_ && index_ == 0 && chassis == 0) return "27XYX27000001";
  return fmt::format("1821{:09}", mix(2, chassis) % 1'000'000'000);
}

std::uint64_t Identities::gpu_uid(unsigned tray, std::uint32_t module, unsigned generation) const {
  if (small_) return 1000 + 1'000'000ULL * index_ + 100'000ULL * generation + 4ULL * tray + module;
  // Over 2^53, where JSON through doubles would lie; under 2^63, which signed columns can hold.
  const std::uint64_t base = mix(3, tray + (std::uint64_t{generation} << 32U));
  return (((base >> 1U) | (1ULL << 62U)) & ~0xFULL) + module;
}

std::uint64_t Identities::tray_uid(unsigned tray, unsigned generation) const {
  if (small_) return 500'000 + 1'000'000ULL * index_ + 1000ULL * generation + tray;
  return (mix(4, tray + (std::uint64_t{generation} << 32U)) >> 1U) | (1ULL << 62U);
}

std::uint64_t Identities::switch_tray_uid(unsigned tray) const {
  if (small_) return 600'000 + 1'000'000ULL * index_ + tray;
  return (mix(5, tray) >> 1U) | (1ULL << 62U);
}

std::uint64_t Identities::chip_uid(unsigned chip) const {
  if (small_) return 700'000 + 1'000'000ULL * index_ + chip;
  return (mix(6, chip) >> 1U) | (1ULL << 62U);
}

}  // namespace imex::rack
