#include "inference/format/tensors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "crc32.hpp"
#include "tensors_cipher.hpp"
#include "tensors_records.hpp"

namespace imex::inference {

namespace {

constexpr std::string_view kTensorsMagic = "|TZR|";
constexpr std::uint32_t kVersionMax = 4, kVersionEncrypted = 3, kVersionFlags = 4;
constexpr std::size_t kFrontBytes = 73;
// An empty name and type, no dimensions, three offsets.
constexpr std::size_t kLineBytesMin = 2 + 1 + 1 + 1 + 3 * 8;

struct Front {
  TensorsFileFacts facts;
  std::uint64_t tensors = 0, table_bytes = 0;
};

Result<Front> read_front(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto magic = reader.view(kTensorsMagic.size());
  if (!reader.ok() || std::memcmp(magic.data(), kTensorsMagic.data(), kTensorsMagic.size()) != 0) {
    return fail(Errc::kDataLoss, "not a Tensorizer file: wrong magic");
  }
  Front front;
  front.facts.version = reader.get<std::uint32_t>();
  const auto flags = reader.get_bytes<32>();
  reader.skip(8 + 8);  // bytes of data, a number that nothing depends on; unused
  front.tensors = reader.get<std::uint64_t>();
  front.table_bytes = reader.get<std::uint64_t>();
  if (!reader.ok()) return fail(Errc::kDataLoss, "the file ends inside its header");
  if (front.facts.version < 1 || front.facts.version > kVersionMax) {
    return fail(Errc::kUnsupported, fmt::format("Tensorizer version {}", front.facts.version),
                "versions 1 to 4 are read");
  }
  const bool flagged = (flags[0] & std::byte{1}) != std::byte{0};
  const bool unknown = (flags[0] & std::byte{0xfe}) != std::byte{0} ||
                       std::any_of(flags.begin() + 1, flags.end(),
                                   [](std::byte byte) { return byte != std::byte{0}; });
  if (unknown || (flagged && front.facts.version < kVersionFlags)) {
    return fail(Errc::kUnsupported, "unknown feature flags");
  }
  front.facts.encrypted = front.facts.version == kVersionEncrypted || flagged;
  if (front.table_bytes > bytes.size() - kFrontBytes ||
      front.tensors > front.table_bytes / kLineBytesMin) {
    return fail(Errc::kDataLoss, fmt::format("{} tensors in a table of {} bytes in a file of {}",
                                             front.tensors, front.table_bytes, bytes.size()));
  }
  return front;
}

/// The record of `line`, which begins at `at`, where the one before ended.
Result<TensorsEntry> read_record(std::span<const std::byte> bytes, const TensorsLine& line,
                                 const TensorsFileFacts& facts, std::uint64_t at) {
  const bool inside = line.header_offset == at && line.data_offset > at &&
                      line.data_offset <= bytes.size() &&
                      line.data_bytes <= bytes.size() - line.data_offset;
  if (!inside) {
    return fail(
        Errc::kDataLoss,
        fmt::format("a record at {} with {} bytes at {} in a file of {}; it should be at {}",
                    line.header_offset, line.data_bytes, line.data_offset, bytes.size(), at),
        "the file is truncated or damaged; fetch it again");
  }
  IMEX_TRY(auto entry, read_tensors_record(bytes.subspan(at, line.data_offset - at), line, facts));
  entry.tensor.bytes = bytes.subspan(line.data_offset, line.data_bytes);
  return entry;
}

/// All hashes that the record has, of the plain data.
Result<void> check_hashes(const TensorsEntry& entry, std::span<const std::byte> hashed) {
  const bool sha = !entry.sha256 || *entry.sha256 == sha256_of(entry.hashed_header, hashed);
  const bool crc = !entry.crc32 || *entry.crc32 == crc32(crc32(0, entry.hashed_header), hashed);
  if (sha && crc) return {};
  return fail(Errc::kDataLoss, fmt::format("tensor '{}' has another {} than its record says",
                                           entry.tensor.name, sha ? "CRC-32" : "SHA-256"));
}

}  // namespace

Result<TensorsFile> TensorsFile::open(const std::string& path) {
  IMEX_TRY(auto mapping, os::map_file(path));
  auto file = parse(mapping.bytes());
  if (!file) return fail(std::move(file).error().context(fmt::format("'{}'", path)));
  file->mapping_ = std::move(mapping);
  return file;
}

Result<TensorsFile> TensorsFile::parse(std::span<const std::byte> bytes) {
  IMEX_TRY(const Front front, read_front(bytes));
  TensorsFile file;
  file.version_ = front.facts.version;
  file.encrypted_ = front.facts.encrypted;
  ByteReader table(bytes.subspan(kFrontBytes, front.table_bytes));
  std::uint64_t at = kFrontBytes + front.table_bytes;
  std::vector<TensorsName> names;
  for (std::uint64_t i = 0; i < front.tensors; ++i) {
    IMEX_TRY(const auto line, read_tensors_line(table));
    IMEX_TRY(auto name, read_tensors_name(line.description.name, line.description.kind));
    auto entry = read_record(bytes, line, front.facts, at);
    if (!entry)
      return fail(std::move(entry).error().context(fmt::format("tensor '{}'", name.text)));
    at = line.data_offset + line.data_bytes;
    entry->tensor.name = name.text;
    names.push_back(std::move(name));
    file.entries_.push_back(std::move(*entry));
  }
  IMEX_CHECK_OK(check_tensors_names(names));
  ByteReader end(bytes.subspan(at));
  if (end.get<std::uint64_t>() != 0 || !end.ok()) {
    return fail(Errc::kDataLoss, "the list of records does not end where its table says",
                "the file is truncated or damaged; fetch it again");
  }
  return file;
}

const TensorsEntry* TensorsFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(
      entries_, name,
      [](const TensorsEntry& entry) -> std::string_view { return entry.tensor.name; });
  return found == entries_.end() ? nullptr : &*found;
}

Result<void> TensorsFile::read(const TensorsEntry& entry, const TensorsKey* key,
                               std::span<std::byte> out) const {
  IMEX_ASSERT(out.size() == entry.data_bytes, "room for exactly the data");
  const std::span<const std::byte> stored = entry.tensor.bytes;
  if (encrypted_ != (key != nullptr)) {
    return fail(Errc::kFailedPrecondition,
                encrypted_ ? "the file is encrypted" : "the file is not encrypted",
                encrypted_ ? "give its key or passphrase" : "read it without a key");
  }
  if (entry.zeros) {
    std::ranges::fill(out, std::byte{0});
  } else if (key == nullptr) {
    std::ranges::copy(stored, out.begin());
  } else if (!entry.cipher && !stored.empty()) {
    return fail(Errc::kDataLoss, fmt::format("tensor '{}' is not encrypted", entry.tensor.name));
  } else if (entry.cipher) {
    auto done = decrypt(*entry.cipher, *key, stored, out);
    if (!done) {
      return fail(std::move(done).error().context(fmt::format("tensor '{}'", entry.tensor.name)));
    }
  }
  return check_hashes(entry, entry.zeros ? std::span<std::byte>() : out);
}

Result<void> TensorsFile::verify(const TensorsEntry& entry) const {
  if (encrypted_) return fail(Errc::kFailedPrecondition, "the file is encrypted");
  if (!entry.sha256 && !entry.crc32) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("tensor '{}' has no hash to compare with", entry.tensor.name));
  }
  return check_hashes(entry, entry.tensor.bytes);
}

}  // namespace imex::inference
