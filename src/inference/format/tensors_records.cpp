#include "tensors_records.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace imex::inference {

namespace {

constexpr std::uint8_t kCrc32 = 0, kSha256 = 1;
constexpr std::uint8_t kKindMax = 2;

std::vector<std::uint32_t> read_shape(ByteReader& reader) {
  std::vector<std::uint32_t> shape(reader.get<std::uint8_t>());
  for (std::uint32_t& size : shape) size = reader.get<std::uint32_t>();
  return shape;
}

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(Errc::kDataLoss, fmt::format("a record's {} is damaged", what));
}

/// Reads the hashes and notes where their values lie in `header`, which are zero when hashed.
Result<void> read_hashes(std::span<const std::byte> block, TensorsEntry& entry,
                         std::vector<std::span<const std::byte>>& values) {
  ByteReader reader(block);
  const auto count = reader.get<std::uint8_t>();
  for (std::uint8_t i = 0; i < count; ++i) {
    const auto type = reader.get<std::uint8_t>();
    const auto value = reader.view(reader.get<std::uint8_t>());
    const bool again = (type == kCrc32 && entry.crc32) || (type == kSha256 && entry.sha256);
    if (!reader.ok() || again) return damaged("list of hashes");
    values.push_back(value);
    if (type == kCrc32 && value.size() == sizeof(std::uint32_t)) {
      entry.crc32 = ByteReader(value).get<std::uint32_t>();
    } else if (type == kSha256 && value.size() == 32) {
      entry.sha256 = ByteReader(value).get_bytes<32>();
    } else {
      return fail(Errc::kUnsupported,
                  fmt::format("a hash of type {} and {} bytes", type, value.size()));
    }
  }
  if (reader.remaining() != 0) return damaged("list of hashes");
  return {};
}

/// The header without the field of the cipher, hash values zeroed.
std::vector<std::byte> hashed_part(std::span<const std::byte> header,
                                   const std::vector<std::span<const std::byte>>& values,
                                   std::span<const std::byte> cipher_field) {
  std::vector<std::byte> part(header.begin(), header.end());
  for (const auto value : values) {
    std::memset(part.data() + (value.data() - header.data()), 0, value.size());
  }
  if (!cipher_field.empty()) {
    const auto begin = part.begin() + (cipher_field.data() - header.data());
    part.erase(begin, begin + static_cast<std::ptrdiff_t>(cipher_field.size()));
  }
  return part;
}

Result<void> set_sizes(const TensorsLine& line, std::int64_t data_bytes,
                       const TensorsFileFacts& facts, TensorsEntry& entry) {
  if (data_bytes < 0) return fail(Errc::kUnsupported, "compressed data");
  entry.tensor.shape.assign(line.description.shape.begin(), line.description.shape.end());
  IMEX_TRY(entry.data_bytes, tensor_bytes(entry.tensor.type, entry.tensor.shape));
  const auto stored = static_cast<std::uint64_t>(data_bytes);
  entry.zeros = facts.version >= 4 && stored == 0 && entry.data_bytes != 0;
  if (stored != line.data_bytes || (stored != entry.data_bytes && !entry.zeros)) {
    return fail(Errc::kDataLoss, fmt::format("{} bytes of data for shape {} of {}, which needs {}",
                                             stored, format_shape(entry.tensor.shape),
                                             layout_of(entry.tensor.type).name, entry.data_bytes));
  }
  return {};
}

}  // namespace

bool TensorsDescription::same_as(const TensorsDescription& other) const noexcept {
  return std::ranges::equal(name, other.name) && std::ranges::equal(dtype, other.dtype) &&
         kind == other.kind && shape == other.shape;
}

Result<TensorsLine> read_tensors_line(ByteReader& table) {
  TensorsLine line;
  line.description.name = table.view(table.get<std::uint16_t>());
  line.description.kind = table.get<std::uint8_t>();
  line.description.dtype = table.view(table.get<std::uint8_t>());
  line.description.shape = read_shape(table);
  line.header_offset = table.get<std::uint64_t>();
  line.data_offset = table.get<std::uint64_t>();
  line.data_bytes = table.get<std::uint64_t>();
  if (!table.ok()) return fail(Errc::kDataLoss, "the table of tensors ends inside an entry");
  return line;
}

Result<TensorsEntry> read_tensors_record(std::span<const std::byte> header, const TensorsLine& line,
                                         const TensorsFileFacts& facts) {
  ByteReader reader(header);
  TensorsEntry entry;
  if (reader.get<std::uint64_t>() != header.size()) return damaged("header length");
  entry.module_index = reader.get<std::uint16_t>();
  TensorsDescription own;
  own.kind = reader.get<std::uint8_t>();
  own.name = reader.view(reader.get<std::uint16_t>());
  own.dtype = reader.view(reader.get<std::uint8_t>());
  own.shape = read_shape(reader);
  const auto hashes = reader.view(reader.get<std::uint16_t>());
  const std::size_t cipher_at = reader.position();
  const auto cipher =
      facts.encrypted ? reader.view(reader.get<std::uint64_t>()) : std::span<const std::byte>();
  const auto cipher_field = header.subspan(cipher_at, reader.position() - cipher_at);
  const auto data_bytes = reader.get<std::int64_t>();
  if (!reader.ok() || reader.remaining() != 0) return damaged("header");
  if (!own.same_as(line.description)) return damaged("description, or its entry in the table,");
  if (own.kind > kKindMax)
    return fail(Errc::kUnsupported, fmt::format("a tensor of kind {}", own.kind));
  entry.kind = static_cast<TensorsEntry::Kind>(own.kind);
  IMEX_TRY(entry.tensor.type, read_tensors_type(own.dtype));
  IMEX_CHECK_OK(set_sizes(line, data_bytes, facts, entry));
  std::vector<std::span<const std::byte>> values;
  IMEX_CHECK_OK(read_hashes(hashes, entry, values));
  entry.hashed_header = hashed_part(header, values, cipher_field);
  if (!cipher.empty()) {
    IMEX_TRY(entry.cipher, read_tensors_cipher(cipher, line.data_bytes));
  }
  return entry;
}

}  // namespace imex::inference
