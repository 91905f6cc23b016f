#include "domain/journal.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sodium.h>

#include "base/bytes.hpp"

// Header and records as in docs/formats/journal.md. The checksum finds torn and damaged bytes; it
// is no protection against a writer with bad intent, who would need the daemon's own user (mode
// 0600).

namespace imex::domain {
namespace {

constexpr std::uint64_t kFileMagic = 0x4c4e'524a'5845'4d49;  // "IMEXJRNL"
constexpr std::uint32_t kFileVersion = 1;
constexpr std::uint32_t kRecordMagic = 0x4352'4a49;  // "IJRC"
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kRecordHeaderBytes = 12;  // magic 4, body bytes 4, type 2, zero 2
/// The longest body: a grant with a full list of GPUs.
constexpr std::size_t kBodyBytesMax = 64 + kWorkloadBytesMax + 8 * kJournalListMax;
constexpr std::size_t kTypeCount = std::variant_size_v<JournalRecord>;
constexpr std::size_t kHeaderChecksumOffset = 112;

std::uint64_t checksum(std::span<const std::byte> a, std::span<const std::byte> b = {}) {
  std::array<unsigned char, crypto_generichash_BYTES_MIN> digest{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, digest.size());
  for (const auto part : {a, b}) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()),
                              part.size());
  }
  crypto_generichash_final(&state, digest.data(), digest.size());
  std::uint64_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value;
}

// ---- bodies ----

/// Appends fields; lengths were checked where the values came in.
class BodyWriter {
 public:
  template <std::integral T>
  BodyWriter& put(T value) {
    const auto bytes = std::as_bytes(std::span<const T, 1>(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  BodyWriter& put(const std::string& text) {
    IMEX_ASSERT(text.size() <= kWorkloadBytesMax, "workload names are checked on entry");
    put(static_cast<std::uint16_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  template <class List>
  BodyWriter& put_list(const List& list) {
    IMEX_ASSERT(list.size() <= kJournalListMax, "lists are checked on entry");
    put(static_cast<std::uint32_t>(list.size()));
    for (const auto& value : list) put(value);
    return *this;
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : in_(body), body_(body) {}

  template <std::integral T>
  void operator()(T& value) {
    value = in_.get<T>();
  }
  void operator()(bool& value) {
    const auto raw = in_.get<std::uint8_t>();
    value = raw != 0;
    valid_ = valid_ && raw <= 1;
  }
  void operator()(std::string& value) {
    const std::size_t size = in_.get<std::uint16_t>();
    if (!in_.ok() || size > kWorkloadBytesMax || size > in_.remaining()) return invalidate();
    const auto text = body_.subspan(body_.size() - in_.remaining(), size);
    value.resize(size);
    if (size != 0) std::memcpy(value.data(), text.data(), size);
    in_.skip(size);
  }
  template <class T>
  void list(std::vector<T>& values) {
    const std::size_t count = in_.get<std::uint32_t>();
    if (!in_.ok() || count > kJournalListMax || count > in_.remaining() / sizeof(T)) {
      return invalidate();
    }
    values.resize(count);
    for (T& value : values) value = in_.get<T>();
  }
  void invalidate() { valid_ = false; }
  [[nodiscard]] bool finish() const { return valid_ && in_.ok() && in_.remaining() == 0; }

 private:
  ByteReader in_;
  std::span<const std::byte> body_;
  bool valid_ = true;
};

void put(BodyWriter& out, const SessionRecord& r) {
  out.put(r.id).put(r.gpu_uid).put(r.pid_start_ticks).put(r.channel).put(r.uid).put(r.pid);
}
void take(BodyReader& in, SessionRecord& r) {
  in(r.id), in(r.gpu_uid), in(r.pid_start_ticks), in(r.channel), in(r.uid), in(r.pid);
}
void put(BodyWriter& out, const SessionEndedRecord& r) { out.put(r.id); }
void take(BodyReader& in, SessionEndedRecord& r) { in(r.id); }
void put(BodyWriter& out, const NextIdRecord& r) { out.put(r.next_id); }
void take(BodyReader& in, NextIdRecord& r) { in(r.next_id); }
void put(BodyWriter& out, const ImporterRecord& r) {
  out.put(r.node).put(static_cast<std::uint8_t>(r.present));
}
void take(BodyReader& in, ImporterRecord& r) { in(r.node), in(r.present); }
void put(BodyWriter& out, const AssignmentRecord& r) {
  out.put(r.assignment.workload).put(r.assignment.channel).put_list(r.assignment.holders);
}
void take(BodyReader& in, AssignmentRecord& r) {
  std::vector<NodeId> holders;
  in(r.assignment.workload), in(r.assignment.channel), in.list(holders);
  r.assignment.holders = {holders.begin(), holders.end()};
}
void put(BodyWriter& out, const GrantRecord& r) {
  out.put(r.workload).put(r.channel).put(r.uid).put_list(r.gpu_uids);
}
void take(BodyReader& in, GrantRecord& r) {
  in(r.workload), in(r.channel), in(r.uid), in.list(r.gpu_uids);
}
void put(BodyWriter& out, const ReleaseRecord& r) { out.put(r.workload); }
void take(BodyReader& in, ReleaseRecord& r) { in(r.workload); }
void put(BodyWriter&, const CleanStopRecord&) {}
void take(BodyReader&, CleanStopRecord&) {}

template <std::size_t Index = 0>
JournalRecord empty_record(std::size_t index) {
  if constexpr (Index + 1 < kTypeCount) {
    if (index != Index) return empty_record<Index + 1>(index);
  }
  return JournalRecord(std::in_place_index<Index>);
}

// ---- records ----

struct FoundRecord {
  JournalRecord record;
  std::size_t bytes = 0;  ///< of the whole record in the log
};

/// The record that starts at the first byte, if a whole and undamaged one does.
std::optional<FoundRecord> read_record(std::span<const std::byte> bytes) {
  ByteReader header(bytes);
  const auto magic = header.get<std::uint32_t>();
  const std::size_t body_bytes = header.get<std::uint32_t>();
  const std::size_t type = header.get<std::uint16_t>();
  const auto zero = header.get<std::uint16_t>();
  if (!header.ok() || magic != kRecordMagic || body_bytes > kBodyBytesMax || type == 0 ||
      type > kTypeCount || zero != 0 || header.remaining() < body_bytes + kChecksumBytes) {
    return std::nullopt;
  }
  const auto covered = bytes.first(kRecordHeaderBytes + body_bytes);
  ByteReader tail(bytes.subspan(covered.size()));
  if (tail.get<std::uint64_t>() != checksum(covered)) return std::nullopt;
  FoundRecord found{empty_record(type - 1), covered.size() + kChecksumBytes};
  BodyReader body(covered.subspan(kRecordHeaderBytes));
  std::visit([&body](auto& record) { take(body, record); }, found.record);
  if (!body.finish()) return std::nullopt;
  return found;
}

/// Whether any whole record starts in `bytes`: then what stands before it is damage, not a torn
/// tail.
bool holds_record(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(&kRecordMagic, 1));
  auto at = bytes.begin();
  while ((at = std::search(at, bytes.end(), magic.begin(), magic.end())) != bytes.end()) {
    if (read_record({at, bytes.end()})) return true;
    ++at;
  }
  return false;
}

struct Apply {
  JournalState& state;

  void operator()(const SessionRecord& r) const { state.sessions.insert_or_assign(r.id, r); }
  void operator()(const SessionEndedRecord& r) const { state.sessions.erase(r.id); }
  void operator()(const NextIdRecord& r) const {
    state.next_id = std::max(state.next_id, r.next_id);
  }
  void operator()(const ImporterRecord& r) const {
    if (r.present) {
      state.importers.insert(r.node);
    } else {
      state.importers.erase(r.node);
    }
  }
  void operator()(const AssignmentRecord& r) const {
    if (r.assignment.holders.empty()) {
      state.assignments.erase(r.assignment.workload);
    } else {
      state.assignments.insert_or_assign(r.assignment.workload, r.assignment);
    }
  }
  void operator()(const GrantRecord& r) const { state.grants.insert_or_assign(r.workload, r); }
  void operator()(const ReleaseRecord& r) const { state.grants.erase(r.workload); }
  void operator()(const CleanStopRecord&) const { state.clean_stop = true; }
};

Result<JournalHeader> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kJournalHeaderBytes) {
    return fail(Errc::kDataLoss, fmt::format("journal: {} bytes are shorter than the header of {}",
                                             bytes.size(), kJournalHeaderBytes));
  }
  ByteReader in(bytes.first(kJournalHeaderBytes));
  JournalHeader header;
  const auto magic = in.get<std::uint64_t>();
  const auto version = in.get<std::uint32_t>();
  const auto header_bytes = in.get<std::uint32_t>();
  if (magic != kFileMagic) return fail(Errc::kDataLoss, "journal: the file has another magic");
  if (version != kFileVersion) {
    return fail(Errc::kVersionMismatch,
                fmt::format("journal: format {}, this build reads {}", version, kFileVersion));
  }
  header.boot_id.bytes = in.get_bytes<16>();
  header.domain_id.bytes = in.get_bytes<16>();
  header.instance.bytes = in.get_bytes<16>();
  header.key = in.get_bytes<16>();
  header.list_digest.bytes = in.get_bytes<16>();
  header.alive_ns = in.get<std::int64_t>();
  header.node = in.get<NodeId>();
  in.skip(6);
  const auto expected = in.get<std::uint64_t>();
  const auto found = checksum(
      bytes.first(kJournalAliveOffset),
      bytes.subspan(kJournalAliveOffset + 8, kHeaderChecksumOffset - kJournalAliveOffset - 8));
  if (header_bytes != kJournalHeaderBytes || expected != found) {
    return fail(Errc::kDataLoss, "journal: checksum of the header does not fit");
  }
  return header;
}

}  // namespace

std::vector<std::byte> encode_journal_header(const JournalHeader& header) {
  std::vector<std::byte> bytes(kJournalHeaderBytes);
  ByteWriter out(bytes);
  out.put(kFileMagic).put(kFileVersion).put(static_cast<std::uint32_t>(kJournalHeaderBytes));
  out.put_bytes(header.boot_id.bytes).put_bytes(header.domain_id.bytes);
  out.put_bytes(header.instance.bytes).put_bytes(header.key);
  out.put_bytes(header.list_digest.bytes);
  IMEX_ASSERT(out.position() == kJournalAliveOffset, "alive_ns is rewritten in place");
  out.put(header.alive_ns).put(header.node).skip(6);
  const std::span<const std::byte> written(bytes);
  // alive_ns is rewritten without the rest, so the checksum leaves it out.
  out.put(checksum(
      written.first(kJournalAliveOffset),
      written.subspan(kJournalAliveOffset + 8, kHeaderChecksumOffset - kJournalAliveOffset - 8)));
  return bytes;
}

std::vector<std::byte> encode_journal_record(const JournalRecord& record) {
  BodyWriter body;
  std::visit([&body](const auto& r) { put(body, r); }, record);
  IMEX_ASSERT(body.bytes().size() <= kBodyBytesMax, "fields are checked on entry");
  std::vector<std::byte> bytes(kRecordHeaderBytes + body.bytes().size() + kChecksumBytes);
  ByteWriter out(bytes);
  out.put(kRecordMagic).put(static_cast<std::uint32_t>(body.bytes().size()));
  out.put(static_cast<std::uint16_t>(record.index() + 1)).put(std::uint16_t{0});
  out.put_bytes(body.bytes());
  out.put(checksum(std::span(bytes).first(out.position())));
  return bytes;
}

Result<JournalState> decode_journal(std::span<const std::byte> bytes, std::size_t* bytes_used) {
  JournalState state;
  IMEX_TRY(state.header, decode_header(bytes));
  std::size_t at = kJournalHeaderBytes;
  while (at < bytes.size()) {
    auto found = read_record(bytes.subspan(at));
    if (!found) break;
    apply_journal_record(state, found->record);
    at += found->bytes;
  }
  if (at < bytes.size() && holds_record(bytes.subspan(at + 1))) {
    return fail(
        Errc::kDataLoss,
        fmt::format("journal: the record at byte {} of {} is damaged, and whole ones follow", at,
                    bytes.size()));
  }
  if (bytes_used != nullptr) *bytes_used = at;
  return state;
}

void apply_journal_record(JournalState& state, const JournalRecord& record) {
  std::visit(Apply{state}, record);
}

JournalState succeed_journal(JournalState former, const JournalHeader& fresh) {
  JournalState state;
  state.header = fresh;
  if (former.header.domain_id != fresh.domain_id) return state;
  for (auto& [workload, assignment] : former.assignments) {
    assignment.holders.erase(former.header.node);
    assignment.holders.erase(fresh.node);
    if (!assignment.holders.empty()) state.assignments.emplace(workload, std::move(assignment));
  }
  return state;
}

std::vector<std::byte> compact_journal(const JournalState& state) {
  std::vector<std::byte> log = encode_journal_header(state.header);
  const auto append = [&log](const JournalRecord& record) {
    const auto bytes = encode_journal_record(record);
    log.insert(log.end(), bytes.begin(), bytes.end());
  };
  if (state.next_id > 1) append(NextIdRecord{state.next_id});
  for (const auto& [id, session] : state.sessions) append(session);
  for (const NodeId node : state.importers) append(ImporterRecord{node, true});
  for (const auto& [workload, assignment] : state.assignments) append(AssignmentRecord{assignment});
  for (const auto& [workload, grant] : state.grants) append(grant);
  if (state.clean_stop) append(CleanStopRecord{});
  return log;
}

}  // namespace imex::domain
