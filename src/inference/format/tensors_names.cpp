// Names and types of `.tensors` files.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "inference/json/json_document.hpp"
#include "tensors_records.hpp"
#include "text_view.hpp"

namespace imex::inference {

namespace {

constexpr char kPathMark = '\x1e';
// Far deeper than any dictionary of tensors nests.
constexpr std::size_t kPathPartsMax = 64, kPathDepth = 4;

std::optional<TensorsPathPart> component(simdjson::dom::element element) {
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) return TensorsPathPart{false, std::string(text)};
  std::uint64_t index = 0;
  if (element.get(index) == simdjson::SUCCESS)
    return TensorsPathPart{true, fmt::format("[{}]", index)};
  return std::nullopt;
}

struct NumpyType {
  std::string_view name;
  TensorType type;
};
constexpr std::string_view kOpaqueBf16{"<V2\0torch.bfloat16", 18};
constexpr std::string_view kOpaqueE4M3{"<V1\0torch.float8_e4m3fn", 23};
constexpr std::string_view kOpaqueE5M2{"<V1\0torch.float8_e5m2", 21};
constexpr std::string_view kByteBf16{"|V2\0torch.bfloat16", 18};
constexpr std::string_view kByteE4M3{"|V1\0torch.float8_e4m3fn", 23};
constexpr std::string_view kByteE5M2{"|V1\0torch.float8_e5m2", 21};
// Of several names of one type the first is what Tensorizer writes.
constexpr std::array kNumpyTypes{
    NumpyType{"<f4", TensorType::kF32},          NumpyType{"<f2", TensorType::kF16},
    NumpyType{"<f8", TensorType::kF64},          NumpyType{"|b1", TensorType::kBool},
    NumpyType{"|u1", TensorType::kU8},           NumpyType{"|i1", TensorType::kI8},
    NumpyType{"<u2", TensorType::kU16},          NumpyType{"<i2", TensorType::kI16},
    NumpyType{"<u4", TensorType::kU32},          NumpyType{"<i4", TensorType::kI32},
    NumpyType{"<u8", TensorType::kU64},          NumpyType{"<i8", TensorType::kI64},
    NumpyType{kOpaqueBf16, TensorType::kBf16},   NumpyType{kByteBf16, TensorType::kBf16},
    NumpyType{kOpaqueE4M3, TensorType::kF8E4M3}, NumpyType{kByteE4M3, TensorType::kF8E4M3},
    NumpyType{kOpaqueE5M2, TensorType::kF8E5M2}, NumpyType{kByteE5M2, TensorType::kF8E5M2},
};

}  // namespace

Result<TensorType> read_tensors_type(std::span<const std::byte> stored) {
  const std::string_view name = as_text(stored);
  const auto* const found = std::ranges::find(kNumpyTypes, name, &NumpyType::name);
  if (found != kNumpyTypes.end()) return found->type;
  std::string shown;
  for (const char c : name) shown += c >= ' ' && c <= '~' ? c : ' ';
  return fail(Errc::kUnsupported, fmt::format("element type '{}'", shown));
}

std::string_view tensors_type_name(TensorType type) noexcept {
  const auto* const found = std::ranges::find(kNumpyTypes, type, &NumpyType::type);
  return found == kNumpyTypes.end() ? std::string_view() : found->name;
}

Result<TensorsName> read_tensors_name(std::span<const std::byte> stored, std::uint8_t kind) {
  const std::string_view text = as_text(stored);
  if (!simdjson::validate_utf8(text)) return fail(Errc::kDataLoss, "a tensor's name is not UTF-8");
  if (!text.starts_with(kPathMark)) return TensorsName{std::string(text), {}};
  if (kind != static_cast<std::uint8_t>(TensorsEntry::Kind::kState)) {
    return fail(Errc::kDataLoss, fmt::format("a tensor of kind {} is named by a path", kind),
                "only entries of state dictionaries are");
  }
  JsonDocument document(kPathDepth);
  IMEX_TRY(const auto list,
           document.parse<simdjson::dom::array>(text.substr(1), "a tensor's path"));
  if (list.size() == 0 || list.size() > kPathPartsMax) {
    return fail(Errc::kDataLoss, fmt::format("a tensor's path has {} parts; 1 to {} are allowed",
                                             list.size(), kPathPartsMax));
  }
  TensorsName name;
  for (const simdjson::dom::element element : list) {
    auto part = component(element);
    if (!part) {
      return fail(Errc::kDataLoss,
                  fmt::format("a tensor's path '{}' is no list of keys", text.substr(1)));
    }
    if (!name.path.empty()) name.text += '.';
    name.text += part->text;
    name.path.push_back(std::move(*part));
  }
  return name;
}

namespace {

/// `a` sorts directly before `b`, which is enough: what begins alike stands together, and of it
/// the shorter first, then keys, then indices.
Result<void> check_neighbours(const TensorsName& a, const TensorsName& b) {
  const auto [left, right] = std::ranges::mismatch(a.path, b.path);
  if (left == a.path.end()) {
    return fail(Errc::kDataLoss,
                fmt::format("tensor '{}' lies inside tensor '{}'", b.text, a.text));
  }
  // Neither equal nor in this order can `b` end first.
  if (left->index != right->index) {
    return fail(Errc::kDataLoss,
                fmt::format("tensor '{}' mixes keys and indices with '{}'", b.text, a.text));
  }
  return {};
}

}  // namespace

Result<void> check_tensors_names(const std::vector<TensorsName>& names) {
  // Weights are found by their text, so also a plain "a.b" and a path of "a" and "b" are one.
  std::set<std::string_view> texts;
  std::vector<const TensorsName*> paths;
  for (const TensorsName& name : names) {
    if (!texts.insert(name.text).second) {
      return fail(Errc::kDataLoss, fmt::format("tensor '{}' appears twice", name.text));
    }
    if (!name.path.empty()) paths.push_back(&name);
  }
  std::ranges::sort(paths, [](const auto* a, const auto* b) { return a->path < b->path; });
  for (std::size_t i = 1; i < paths.size(); ++i) {
    IMEX_CHECK_OK(check_neighbours(*paths[i - 1], *paths[i]));
  }
  return {};
}

}  // namespace imex::inference
