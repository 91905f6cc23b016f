// Names and types of `.tensors` files.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "tensors_records.hpp"
#include "text_view.hpp"

namespace imex::inference {

namespace {

constexpr char kPathMark = '\x1e';

std::optional<std::string> component(simdjson::dom::element element) {
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) return std::string(text);
  std::uint64_t index = 0;
  if (element.get(index) == simdjson::SUCCESS) return fmt::format("[{}]", index);
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

Result<TensorsName> read_tensors_name(std::span<const std::byte> stored) {
  const std::string_view text = as_text(stored);
  if (!simdjson::validate_utf8(text)) return fail(Errc::kDataLoss, "a tensor's name is not UTF-8");
  if (!text.starts_with(kPathMark)) return TensorsName{std::string(text), {}};
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  const std::string_view json = text.substr(1);
  auto error = parser.allocate(json.size(), 4);
  if (error == simdjson::SUCCESS) error = parser.parse(json.data(), json.size()).get(list);
  TensorsName name;
  bool good = error == simdjson::SUCCESS && list.size() != 0;
  if (good) {
    for (const simdjson::dom::element element : list) {
      auto part = component(element);
      good = good && part;
      if (part) name.path.push_back(std::move(*part));
    }
  }
  if (!good) {
    return fail(Errc::kDataLoss, fmt::format("a tensor's path '{}' is no list of keys", json));
  }
  name.text = fmt::format("{}", fmt::join(name.path, "."));
  return name;
}

Result<void> check_tensors_names(const std::vector<TensorsName>& names) {
  std::set<std::string_view> plain;
  std::set<std::vector<std::string>> paths;
  for (const TensorsName& name : names) {
    const bool fresh =
        name.path.empty() ? plain.insert(name.text).second : paths.insert(name.path).second;
    if (!fresh) return fail(Errc::kDataLoss, fmt::format("tensor '{}' appears twice", name.text));
  }
  // One level holds either keys or indices, and what leads to others is no tensor itself.
  std::map<std::vector<std::string>, bool> levels;
  for (const std::vector<std::string>& path : paths) {
    std::vector<std::string> parent;
    for (const std::string& part : path) {
      const bool index = part.starts_with('[');
      const auto [level, fresh] = levels.emplace(parent, index);
      if (level->second != index) {
        return fail(Errc::kDataLoss, fmt::format("tensor '{}' mixes keys and indices with another",
                                                 fmt::join(path, ".")));
      }
      parent.push_back(part);
      if (parent.size() < path.size() && paths.contains(parent)) {
        return fail(Errc::kDataLoss, fmt::format("tensor '{}' lies inside tensor '{}'",
                                                 fmt::join(path, "."), fmt::join(parent, ".")));
      }
    }
  }
  return {};
}

}  // namespace imex::inference
