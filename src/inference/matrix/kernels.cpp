// Compiled once per instruction set by foreach_target.h; the best is picked at run time. AVX3_DL is
// left out: some hypervisors report it without having all of it, and its VNNI is not what it says.
#ifdef IMEX_FEW_TARGETS  // builds whose compilation costs much
#define HWY_DISABLED_TARGETS                                                          \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

#include "kernels.hpp"

#include <array>
#include <cstdint>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "packed_kernels-inl.hpp"
#include "plain_kernels-inl.hpp"
#include "round_inputs-inl.hpp"
#include "wide_kernels-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {
namespace {

void round_one(const float* values, std::size_t blocks, InputBlock* out, std::size_t out_stride) {
  round_inputs(values, blocks, out, out_stride);
}

/// TensorType kQ40 to kQ6K.
template <class Dot, std::size_t... kIndex>
constexpr Kernels make_kernels(std::string_view name, std::index_sequence<kIndex...> /*types*/) {
  constexpr auto kType = [](std::size_t index) {
    return static_cast<TensorType>(static_cast<std::size_t>(TensorType::kQ40) + index);
  };
  return {.name = name,
          .packed = {packed_kernels<packed_layout(kType(kIndex)), Dot>()...},
          .streams = {&multiply_streams<packed_layout(kType(kIndex)), Dot>...},
          .expand = {&expand<packed_layout(kType(kIndex))>...},
          .wide = {wide_kernels<ExpandedKind::kPlain, Dot>(),
                   wide_kernels<ExpandedKind::kMinimum, Dot>(),
                   wide_kernels<ExpandedKind::kHalves, Dot>()},
          .plain = {plain_kernels<float>(), plain_kernels<hwy::float16_t>(),
                    plain_kernels<hwy::bfloat16_t>()},
          .round = &round_one};
}
template <class Dot>
constexpr Kernels make_kernels(std::string_view name) {
  return make_kernels<Dot>(name, std::make_index_sequence<8>());
}

constexpr Kernels kKernels = make_kernels<PlainDot>(
#if HWY_TARGET == HWY_AVX3
    "AVX-512"
#elif HWY_TARGET == HWY_AVX2
    "AVX2"
#elif HWY_TARGET == HWY_NEON
    "NEON"
#elif HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    "scalar"
#else
    "vectors of 128 bits"
#endif
);
#if HWY_TARGET == HWY_AVX3
constexpr Kernels kVnniKernels = make_kernels<VnniDot>("AVX-512 VNNI");
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imex::inference {

namespace {

struct Choice {
  std::array<const Kernels*, 4> found{};
  std::size_t count = 0;

  Choice() noexcept {
    [[maybe_unused]] const std::int64_t supported = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX3
    if ((supported & HWY_AVX3) != 0) {
      if (__builtin_cpu_supports("avx512vnni") != 0) add(N_AVX3::kVnniKernels);
      add(N_AVX3::kKernels);
    }
#endif
#if (HWY_TARGETS & HWY_AVX2) && HWY_STATIC_TARGET != HWY_AVX2
    if ((supported & HWY_AVX2) != 0) add(N_AVX2::kKernels);
#endif
#if HWY_STATIC_TARGET != HWY_AVX3
    add(HWY_NAMESPACE::kKernels);  // what the compiler may use anywhere: NEON, on x86 none
#endif
  }
  void add(const Kernels& kernels) noexcept { found[count++] = &kernels; }
};

const Choice& choice() noexcept {
  static const Choice made;
  return made;
}

}  // namespace

std::span<const Kernels* const> available_kernels() noexcept {
  return {choice().found.data(), choice().count};
}

}  // namespace imex::inference
#endif
