#include "gguf_parser.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "text_view.hpp"

namespace imex::inference {

namespace {

constexpr std::uint32_t kMagic = 0x4655'4747;  // "GGUF"
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kNameBytesMax = 64;
constexpr std::uint32_t kDimensionsMax = 4;
constexpr unsigned kArrayDepthMax = 4;
// The least that a pair (empty key, one byte) and a tensor (empty name, no dimension) take.
constexpr std::size_t kPairBytesMin = 8 + 4 + 1;
constexpr std::size_t kTensorBytesMin = 8 + 4 + 4 + 8;

struct StoredType {
  std::uint32_t number;
  std::string_view name;
  std::optional<TensorType> type;  ///< none: known by name, not read
};

/// Numbers of ggml's types. The ones without a reader are here so that a refusal can name them.
constexpr std::array kStoredTypes{
    StoredType{0, "F32", TensorType::kF32},
    StoredType{1, "F16", TensorType::kF16},
    StoredType{2, "Q4_0", TensorType::kQ40},
    StoredType{3, "Q4_1", TensorType::kQ41},
    StoredType{6, "Q5_0", TensorType::kQ50},
    StoredType{7, "Q5_1", TensorType::kQ51},
    StoredType{8, "Q8_0", TensorType::kQ80},
    StoredType{9, "Q8_1", {}},
    StoredType{10, "Q2_K", {}},
    StoredType{11, "Q3_K", {}},
    StoredType{12, "Q4_K", TensorType::kQ4K},
    StoredType{13, "Q5_K", TensorType::kQ5K},
    StoredType{14, "Q6_K", TensorType::kQ6K},
    StoredType{15, "Q8_K", {}},
    StoredType{16, "IQ2_XXS", {}},
    StoredType{17, "IQ2_XS", {}},
    StoredType{18, "IQ3_XXS", {}},
    StoredType{19, "IQ1_S", {}},
    StoredType{20, "IQ4_NL", {}},
    StoredType{21, "IQ3_S", {}},
    StoredType{22, "IQ2_S", {}},
    StoredType{23, "IQ4_XS", {}},
    StoredType{24, "I8", TensorType::kI8},
    StoredType{25, "I16", TensorType::kI16},
    StoredType{26, "I32", TensorType::kI32},
    StoredType{27, "I64", TensorType::kI64},
    StoredType{28, "F64", TensorType::kF64},
    StoredType{29, "IQ1_M", {}},
    StoredType{30, "BF16", TensorType::kBf16},
    StoredType{34, "TQ1_0", {}},
    StoredType{35, "TQ2_0", {}},
    StoredType{39, "MXFP4", {}},
};

Result<TensorType> stored_type(std::uint32_t number, std::string_view tensor) {
  const auto* const found = std::ranges::find(kStoredTypes, number, &StoredType::number);
  if (found != kStoredTypes.end() && found->type) return *found->type;
  return fail(Errc::kUnsupported,
              fmt::format("tensor '{}' has type {} ({})", tensor, number,
                          found == kStoredTypes.end() ? "unknown" : found->name),
              "read are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K");
}

}  // namespace

Result<GgufType> gguf_type(std::uint32_t number) {
  if (number <= static_cast<std::uint32_t>(GgufType::kF64)) return static_cast<GgufType>(number);
  return fail(Errc::kDataLoss, fmt::format("unknown value type {}", number));
}

std::size_t gguf_type_bytes(GgufType type) noexcept {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

tl::unexpected<Error> GgufParser::truncated(std::string_view what) const {
  return fail(Errc::kDataLoss, fmt::format("the file ends inside {}, {} bytes after offset {}",
                                           what, reader_.remaining(), reader_.position()));
}

Result<std::string_view> GgufParser::string(std::string_view what) {
  const auto length = reader_.get<std::uint64_t>();
  const auto bytes = reader_.view(length);
  if (!reader_.ok()) return truncated(what);
  return as_text(bytes);
}

Result<GgufParser::Counts> GgufParser::header() {
  const auto magic = reader_.get<std::uint32_t>();
  const auto version = reader_.get<std::uint32_t>();
  const Counts counts{reader_.get<std::uint64_t>(), reader_.get<std::uint64_t>()};
  if (magic != kMagic) return fail(Errc::kDataLoss, "not a GGUF file: wrong magic");
  if (!reader_.ok()) return truncated("the header");
  if (version == std::uint32_t{kVersion} << 24U) {
    return fail(Errc::kUnsupported, "the file is big-endian", "convert it to little-endian");
  }
  if (version != kVersion) {
    return fail(Errc::kUnsupported, fmt::format("GGUF version {}", version),
                "version 3 is read; convert the file with a current tool");
  }
  const std::uint64_t left = reader_.remaining();
  if (counts.pairs > left / kPairBytesMin || counts.tensors > left / kTensorBytesMin) {
    return fail(Errc::kDataLoss, fmt::format("{} values and {} tensors do not fit into {} bytes",
                                             counts.pairs, counts.tensors, left));
  }
  return counts;
}

Result<GgufParser::Pair> GgufParser::pair() {
  IMEX_TRY(const auto key, string("a key"));
  const auto type = reader_.get<std::uint32_t>();
  if (!reader_.ok()) return truncated("the type of a value");
  auto read = value(type);
  if (!read) return fail(std::move(read).error().context(fmt::format("value '{}'", key)));
  return Pair{key, *read};
}

Result<GgufValue> GgufParser::value(std::uint32_t number) {
  IMEX_TRY(const auto type, gguf_type(number));
  GgufValue read;
  switch (type) {
    case GgufType::kU8:
      read = std::uint64_t{reader_.get<std::uint8_t>()};
      break;
    case GgufType::kU16:
      read = std::uint64_t{reader_.get<std::uint16_t>()};
      break;
    case GgufType::kU32:
      read = std::uint64_t{reader_.get<std::uint32_t>()};
      break;
    case GgufType::kU64:
      read = reader_.get<std::uint64_t>();
      break;
    case GgufType::kI8:
      read = std::int64_t{reader_.get<std::int8_t>()};
      break;
    case GgufType::kI16:
      read = std::int64_t{reader_.get<std::int16_t>()};
      break;
    case GgufType::kI32:
      read = std::int64_t{reader_.get<std::int32_t>()};
      break;
    case GgufType::kI64:
      read = reader_.get<std::int64_t>();
      break;
    case GgufType::kF32:
      read = double{std::bit_cast<float>(reader_.get<std::uint32_t>())};
      break;
    case GgufType::kF64:
      read = std::bit_cast<double>(reader_.get<std::uint64_t>());
      break;
    case GgufType::kBool:
      read = reader_.get<std::uint8_t>() != 0;
      break;
    case GgufType::kString: {
      IMEX_TRY(read, string("a string"));
      break;
    }
    case GgufType::kArray: {
      IMEX_TRY(read, array(1));
      break;
    }
  }
  if (!reader_.ok()) return truncated("a value");
  return read;
}

Result<GgufArray> GgufParser::array(unsigned depth) {
  if (depth > kArrayDepthMax) {
    return fail(Errc::kDataLoss, fmt::format("arrays are nested deeper than {}", kArrayDepthMax));
  }
  const auto number = reader_.get<std::uint32_t>();
  const auto count = reader_.get<std::uint64_t>();
  if (!reader_.ok()) return truncated("an array");
  IMEX_TRY(const auto element, gguf_type(number));
  ByteReader start = reader_;
  IMEX_CHECK_OK(skip_elements(element, count, depth));
  return GgufArray{element, count, start.view(reader_.position() - start.position())};
}

Result<void> GgufParser::skip_elements(GgufType type, std::uint64_t count, unsigned depth) {
  if (const std::size_t bytes = gguf_type_bytes(type); bytes != 0) {
    if (count > reader_.remaining() / bytes) return truncated("an array");
    static_cast<void>(reader_.view(count * bytes));
    return {};
  }
  // Each round takes at least eight bytes, so a count that is a lie ends at the end of the file.
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::kString) {
      IMEX_CHECK_OK(string("a string of an array"));
    } else {
      IMEX_CHECK_OK(array(depth + 1));
    }
  }
  return {};
}

Result<GgufTensorEntry> GgufParser::tensor() {
  GgufTensorEntry entry;
  IMEX_TRY(entry.name, string("the name of a tensor"));
  if (entry.name.empty() || entry.name.size() > kNameBytesMax) {
    return fail(Errc::kDataLoss, fmt::format("a tensor's name has {} bytes; 1 to {} are allowed",
                                             entry.name.size(), kNameBytesMax));
  }
  const auto dimensions = reader_.get<std::uint32_t>();
  if (dimensions > kDimensionsMax) {
    return fail(Errc::kDataLoss,
                fmt::format("tensor '{}' has {} dimensions; at most {} are allowed", entry.name,
                            dimensions, kDimensionsMax));
  }
  entry.shape.resize(dimensions);
  for (auto size = entry.shape.rbegin(); size != entry.shape.rend(); ++size) {
    *size = reader_.get<std::uint64_t>();
  }
  const auto type = reader_.get<std::uint32_t>();
  entry.offset = reader_.get<std::uint64_t>();
  if (!reader_.ok()) return truncated(fmt::format("tensor '{}'", entry.name));
  IMEX_TRY(entry.type, stored_type(type, entry.name));
  return entry;
}

}  // namespace imex::inference
