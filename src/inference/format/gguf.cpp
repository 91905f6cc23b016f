#include "inference/format/gguf.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "gguf_parser.hpp"
#include "text_view.hpp"

namespace imex::inference {

namespace {

constexpr std::uint64_t kAlignmentDefault = 32;
constexpr std::uint64_t kAlignmentMax = std::uint64_t{1} << 20U;

Result<std::uint64_t> alignment_of(const GgufFile& file) {
  if (file.find("general.alignment") == nullptr) return kAlignmentDefault;
  IMEX_TRY(const auto alignment, file.integer("general.alignment"));
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kAlignmentMax) {
    return fail(Errc::kDataLoss,
                fmt::format("general.alignment is {}; it must be a power of two from 8 to {}",
                            alignment, kAlignmentMax));
  }
  return alignment;
}

Result<std::span<const std::byte>> bytes_of(const GgufTensorEntry& entry,
                                            std::span<const std::byte> data,
                                            std::uint64_t alignment) {
  auto size = tensor_bytes(entry.type, entry.shape);
  if (!size) return fail(std::move(size).error().context(fmt::format("tensor '{}'", entry.name)));
  if (entry.offset % alignment != 0) {
    return fail(Errc::kDataLoss,
                fmt::format("tensor '{}' starts at offset {}, not a multiple of {}", entry.name,
                            entry.offset, alignment));
  }
  if (entry.offset > data.size() || *size > data.size() - entry.offset) {
    return fail(Errc::kDataLoss,
                fmt::format("tensor '{}' takes {} bytes at offset {}, but the data has {} bytes",
                            entry.name, *size, entry.offset, data.size()),
                "the file is truncated or damaged; fetch it again");
  }
  return data.subspan(entry.offset, *size);
}

Result<void> check_no_overlap(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> sorted;
  for (const Tensor& tensor : tensors) {
    if (!tensor.bytes.empty()) sorted.push_back(&tensor);
  }
  std::ranges::sort(sorted, {}, [](const Tensor* tensor) { return tensor->bytes.data(); });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const Tensor& before = *sorted[i - 1];
    if (before.bytes.data() + before.bytes.size() > sorted[i]->bytes.data()) {
      return fail(Errc::kDataLoss,
                  fmt::format("tensors '{}' and '{}' overlap", before.name, sorted[i]->name));
    }
  }
  return {};
}

tl::unexpected<Error> wrong_kind(std::string_view key, std::string_view wanted) {
  return fail(Errc::kDataLoss, fmt::format("value '{}' is not {}", key, wanted));
}

std::string_view string_at(ByteReader& reader) noexcept {
  return as_text(reader.view(reader.get<std::uint64_t>()));
}

/// An element of an array of whole numbers; none if the type is another.
template <class Out>
std::optional<Out> integer_at(ByteReader& reader, GgufType type) noexcept {
  const auto fit = [](auto value) -> std::optional<Out> {
    if (!std::in_range<Out>(value)) return std::nullopt;
    return static_cast<Out>(value);
  };
  switch (type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return fit(reader.get<std::uint8_t>());
    case GgufType::kI8:
      return fit(reader.get<std::int8_t>());
    case GgufType::kU16:
      return fit(reader.get<std::uint16_t>());
    case GgufType::kI16:
      return fit(reader.get<std::int16_t>());
    case GgufType::kU32:
      return fit(reader.get<std::uint32_t>());
    case GgufType::kI32:
      return fit(reader.get<std::int32_t>());
    case GgufType::kU64:
      return fit(reader.get<std::uint64_t>());
    case GgufType::kI64:
      return fit(reader.get<std::int64_t>());
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path) {
  IMEX_TRY(auto mapping, os::map_file(path));
  auto file = parse(mapping.bytes());
  if (!file) return fail(std::move(file).error().context(fmt::format("'{}'", path)));
  file->mapping_ = std::move(mapping);
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  GgufFile file;
  GgufParser parser(bytes);
  IMEX_TRY(const auto counts, parser.header());
  for (std::uint64_t i = 0; i < counts.pairs; ++i) {
    IMEX_TRY(const auto pair, parser.pair());
    if (!file.metadata_.emplace(pair.key, pair.value).second) {
      return fail(Errc::kDataLoss, fmt::format("value '{}' appears twice", pair.key));
    }
  }
  std::vector<GgufTensorEntry> entries;  // grows with what is read: counts may lie
  for (std::uint64_t i = 0; i < counts.tensors; ++i) {
    IMEX_TRY(auto entry, parser.tensor());
    if (!file.tensor_index_.emplace(entry.name, i).second) {
      return fail(Errc::kDataLoss, fmt::format("tensor '{}' appears twice", entry.name));
    }
    entries.push_back(std::move(entry));
  }
  IMEX_TRY(const auto alignment, alignment_of(file));
  const std::size_t start = (parser.position() + alignment - 1) / alignment * alignment;
  const auto data = bytes.subspan(std::min(start, bytes.size()));
  file.tensors_.reserve(entries.size());
  for (GgufTensorEntry& entry : entries) {
    IMEX_TRY(const auto own, bytes_of(entry, data, alignment));
    file.tensors_.push_back({std::string(entry.name), entry.type, std::move(entry.shape), own});
  }
  IMEX_CHECK_OK(check_no_overlap(file.tensors_));
  return file;
}

const Tensor* GgufFile::find_tensor(std::string_view name) const noexcept {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufFile::find(std::string_view key) const noexcept {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

namespace {

template <class T>
Result<const T*> get(const GgufFile& file, std::string_view key, std::string_view wanted) {
  const GgufValue* const value = file.find(key);
  if (value == nullptr)
    return fail(Errc::kNotFound, fmt::format("the file has no value '{}'", key));
  const T* const typed = std::get_if<T>(value);
  if (typed == nullptr) return wrong_kind(key, wanted);
  return typed;
}

}  // namespace

Result<std::uint64_t> GgufFile::integer(std::string_view key) const {
  if (const GgufValue* const value = find(key); value != nullptr) {
    if (const auto* const number = std::get_if<std::int64_t>(value);
        number != nullptr && *number >= 0) {
      return static_cast<std::uint64_t>(*number);
    }
  }
  IMEX_TRY(const auto* const number, get<std::uint64_t>(*this, key, "a whole number from 0"));
  return *number;
}

Result<double> GgufFile::number(std::string_view key) const {
  IMEX_TRY(const auto* const number, get<double>(*this, key, "a floating-point number"));
  return *number;
}

Result<bool> GgufFile::flag(std::string_view key) const {
  IMEX_TRY(const auto* const flag, get<bool>(*this, key, "true or false"));
  return *flag;
}

Result<std::string_view> GgufFile::text(std::string_view key) const {
  IMEX_TRY(const auto* const text, get<std::string_view>(*this, key, "a string"));
  return *text;
}

Result<std::vector<std::string_view>> GgufFile::texts(std::string_view key) const {
  IMEX_TRY(const auto* const array, get<GgufArray>(*this, key, "an array of strings"));
  if (array->element != GgufType::kString) return wrong_kind(key, "an array of strings");
  std::vector<std::string_view> texts;
  texts.reserve(array->count);
  ByteReader reader(array->bytes);
  for (std::uint64_t i = 0; i < array->count; ++i) texts.push_back(string_at(reader));
  return texts;
}

Result<std::vector<float>> GgufFile::floats(std::string_view key) const {
  IMEX_TRY(const auto* const array, get<GgufArray>(*this, key, "an array of floats"));
  if (array->element != GgufType::kF32) return wrong_kind(key, "an array of 32-bit floats");
  std::vector<float> floats(array->count);
  if (!floats.empty()) std::memcpy(floats.data(), array->bytes.data(), array->bytes.size());
  return floats;
}

Result<std::vector<std::int32_t>> GgufFile::integers(std::string_view key) const {
  IMEX_TRY(const auto* const array, get<GgufArray>(*this, key, "an array of whole numbers"));
  std::vector<std::int32_t> integers;
  if (gguf_type_bytes(array->element) != 0) integers.reserve(array->count);
  ByteReader reader(array->bytes);
  for (std::uint64_t i = 0; i < array->count; ++i) {
    const auto value = integer_at<std::int32_t>(reader, array->element);
    if (!value) return wrong_kind(key, "an array of whole numbers of 32 bits");
    integers.push_back(*value);
  }
  return integers;
}

}  // namespace imex::inference
