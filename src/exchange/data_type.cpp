#include <array>
#include <utility>

#include <imex/communicator.hpp>
#include <imex/data_type.hpp>

namespace imex {

namespace {

template <class T, std::size_t kCount>
using Names = std::array<std::pair<T, std::string_view>, kCount>;

constexpr Names<DataType, kDataTypeCount> kTypes{{{DataType::kInt8, "i8"},
                                                  {DataType::kUint8, "u8"},
                                                  {DataType::kInt16, "i16"},
                                                  {DataType::kUint16, "u16"},
                                                  {DataType::kInt32, "i32"},
                                                  {DataType::kUint32, "u32"},
                                                  {DataType::kInt64, "i64"},
                                                  {DataType::kUint64, "u64"},
                                                  {DataType::kFloat16, "f16"},
                                                  {DataType::kFloat32, "f32"},
                                                  {DataType::kFloat64, "f64"},
                                                  {DataType::kBfloat16, "bf16"},
                                                  {DataType::kFloat8E4m3, "e4m3"},
                                                  {DataType::kFloat8E5m2, "e5m2"}}};
constexpr Names<ReduceOp, kReduceOpCount> kOps{{{ReduceOp::kSum, "sum"},
                                                {ReduceOp::kProd, "prod"},
                                                {ReduceOp::kMax, "max"},
                                                {ReduceOp::kMin, "min"},
                                                {ReduceOp::kAvg, "avg"}}};
constexpr Names<Algorithm, kAlgorithmCount> kAlgorithms{{{Algorithm::kAuto, "auto"},
                                                         {Algorithm::kPacket, "packet"},
                                                         {Algorithm::kMailbox, "mailbox"},
                                                         {Algorithm::kRing, "ring"},
                                                         {Algorithm::kRegistered, "registered"},
                                                         {Algorithm::kSingleCopy, "single-copy"},
                                                         {Algorithm::kTwoLevel, "two-level"}}};

template <class T, std::size_t kCount>
std::string_view name_of(const Names<T, kCount>& names, T value) noexcept {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "unknown";
}

template <class T, std::size_t kCount>
std::optional<T> from_name(const Names<T, kCount>& names, std::string_view text) noexcept {
  for (const auto& [known, name] : names) {
    if (name == text) return known;
  }
  return std::nullopt;
}

}  // namespace

std::string_view data_type_name(DataType type) noexcept { return name_of(kTypes, type); }
std::string_view reduce_op_name(ReduceOp op) noexcept { return name_of(kOps, op); }
std::string_view algorithm_name(Algorithm algorithm) noexcept {
  return name_of(kAlgorithms, algorithm);
}
std::optional<DataType> data_type_from_name(std::string_view name) noexcept {
  return from_name(kTypes, name);
}
std::optional<ReduceOp> reduce_op_from_name(std::string_view name) noexcept {
  return from_name(kOps, name);
}
std::optional<Algorithm> algorithm_from_name(std::string_view name) noexcept {
  return from_name(kAlgorithms, name);
}

}  // namespace imex
