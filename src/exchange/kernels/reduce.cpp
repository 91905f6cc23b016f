// Compiled once per instruction set by foreach_target.h; the best is picked at run time. AVX3_DL is
// left out: it adds nothing here, and some hypervisors report it without having all of it.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#include "kernels/reduce.hpp"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/formats-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::exchange {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Any format: blocks are copied into aligned arrays that stay in L1, widened, combined, rounded.
template <class Format, class Op>
void reduce_blocks(const Reduction& r) {
  using Raw = typename Format::Raw;
  using Acc = typename Format::Acc;
  constexpr std::size_t kBlock = 256;
  alignas(64) Raw raw[kBlock];
  alignas(64) Acc acc[kBlock];
  for (std::size_t begin = 0; begin < r.elements; begin += kBlock) {
    const std::size_t count = std::min(kBlock, r.elements - begin);
    const std::size_t offset = begin * sizeof(Raw), bytes = count * sizeof(Raw);
    std::memcpy(raw, r.sources[0] + offset, bytes);
    for (std::size_t i = 0; i < count; ++i) acc[i] = Op::first(Format::decode(raw[i]));
    for (std::size_t s = 1; s < r.source_count; ++s) {
      std::memcpy(raw, r.sources[s] + offset, bytes);
      for (std::size_t i = 0; i < count; ++i) acc[i] = Op::combine(acc[i], Format::decode(raw[i]));
    }
    if constexpr (std::is_same_v<Op, Avg>) {
      const auto divisor = static_cast<Acc>(r.source_count);
      for (std::size_t i = 0; i < count; ++i) acc[i] = static_cast<Acc>(acc[i] / divisor);
    }
    for (std::size_t i = 0; i < count; ++i) raw[i] = Format::encode(acc[i]);
    for (std::size_t t = 0; t < r.target_count; ++t) {
      std::memcpy(r.targets[t] + offset, raw, bytes);
    }
  }
}

template <class Op, class D, class V>
V vector_combine(D d, V a, V b) {
  if constexpr (std::is_same_v<Op, Sum>) return hn::Add(a, b);
  if constexpr (std::is_same_v<Op, Prod>) return hn::Mul(a, b);
  if constexpr (std::is_same_v<Op, Max>) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
  if constexpr (std::is_same_v<Op, Min>) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
  static_cast<void>(d);
}

/// f32 and f64 straight from the sources into the targets.
template <class T, class Op>
void reduce_vectors(const Reduction& r) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto source = [&](std::size_t s) { return reinterpret_cast<const T*>(r.sources[s]); };
  const auto first = [&](auto v) {
    if constexpr (std::is_same_v<Op, Sum>)
      return hn::Add(hn::Zero(d), v);
    else
      return v;
  };
  std::size_t i = 0;
  const auto store = [&](std::size_t at, auto v) {
    for (std::size_t t = 0; t < r.target_count; ++t) {
      hn::StoreU(v, d, reinterpret_cast<T*>(r.targets[t]) + at);
    }
  };
  if (r.source_count == 2) {
    const T* a = source(0);
    const T* b = source(1);
    for (; i + 2 * lanes <= r.elements; i += 2 * lanes) {
      const auto low = vector_combine<Op>(d, first(hn::LoadU(d, a + i)), hn::LoadU(d, b + i));
      const auto high =
          vector_combine<Op>(d, first(hn::LoadU(d, a + i + lanes)), hn::LoadU(d, b + i + lanes));
      store(i, low);
      store(i + lanes, high);
    }
  }
  for (; i + lanes <= r.elements; i += lanes) {
    auto acc = first(hn::LoadU(d, source(0) + i));
    for (std::size_t s = 1; s < r.source_count; ++s) {
      acc = vector_combine<Op>(d, acc, hn::LoadU(d, source(s) + i));
    }
    store(i, acc);
  }
  // Less than a vector is left. One by one: short messages consist of nothing else.
  for (; i != r.elements; ++i) {
    const auto element = [&](std::size_t s) {
      T value;
      std::memcpy(&value, r.sources[s] + i * sizeof(T), sizeof(T));
      return value;
    };
    T acc = Op::first(element(0));
    for (std::size_t s = 1; s < r.source_count; ++s) acc = Op::combine(acc, element(s));
    for (std::size_t t = 0; t < r.target_count; ++t) {
      std::memcpy(r.targets[t] + i * sizeof(T), &acc, sizeof(T));
    }
  }
}

template <class Format>
ReduceKernel blocks(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return &reduce_blocks<Format, Sum>;
    case ReduceOp::kProd:
      return &reduce_blocks<Format, Prod>;
    case ReduceOp::kMax:
      return &reduce_blocks<Format, Max>;
    case ReduceOp::kMin:
      return &reduce_blocks<Format, Min>;
    case ReduceOp::kAvg:
      return &reduce_blocks<Format, Avg>;
  }
  return nullptr;
}

template <class T>
ReduceKernel vectors(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return &reduce_vectors<T, Sum>;
    case ReduceOp::kProd:
      return &reduce_vectors<T, Prod>;
    case ReduceOp::kMax:
      return &reduce_vectors<T, Max>;
    case ReduceOp::kMin:
      return &reduce_vectors<T, Min>;
    case ReduceOp::kAvg:
      return &reduce_blocks<Plain<T>, Avg>;
  }
  return nullptr;
}

ReduceKernel select(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt8:
      return blocks<Plain<std::int8_t>>(op);
    case DataType::kUint8:
      return blocks<Plain<std::uint8_t>>(op);
    case DataType::kInt16:
      return blocks<Plain<std::int16_t>>(op);
    case DataType::kUint16:
      return blocks<Plain<std::uint16_t>>(op);
    case DataType::kInt32:
      return blocks<Plain<std::int32_t>>(op);
    case DataType::kUint32:
      return blocks<Plain<std::uint32_t>>(op);
    case DataType::kInt64:
      return blocks<Plain<std::int64_t>>(op);
    case DataType::kUint64:
      return blocks<Plain<std::uint64_t>>(op);
    case DataType::kFloat16:
      return blocks<Half>(op);
    case DataType::kBfloat16:
      return blocks<Bfloat>(op);
    case DataType::kFloat8E4m3:
      return blocks<E4m3>(op);
    case DataType::kFloat8E5m2:
      return blocks<E5m2>(op);
    case DataType::kFloat32:
      return vectors<float>(op);
    case DataType::kFloat64:
      return vectors<double>(op);
  }
  return nullptr;
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace imex::exchange
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imex::exchange {

HWY_EXPORT(select);
HWY_EXPORT(target_name);

ReduceKernel reduce_kernel(DataType type, ReduceOp op) noexcept {
  return HWY_DYNAMIC_DISPATCH(select)(type, op);
}

const char* reduce_target() noexcept { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace imex::exchange
#endif
