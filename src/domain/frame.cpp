#include "domain/frame.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"

// Each message type has one put() and one take(), which list its fields in the order of the wire.
// docs/formats/channel.md has the same tables with offsets.

namespace imex::domain {
namespace {

constexpr std::uint32_t kMagic = 0x4658'4d49;  // "IMXF" in the order of the bytes
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kTypeCount = std::variant_size_v<Message>;

void put_code(ByteWriter& out, Errc code) {
  out.put(static_cast<std::uint16_t>(code)).put(std::uint16_t{0});
}
void put_text(ByteWriter& out, const ErrorText& text) {
  out.put_bytes(std::as_bytes(std::span(text)));
}

/// A ByteReader that also remembers whether a field had a value that no writer produces.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : in_(bytes) {}

  template <class T>
  void operator()(T& value) {
    value = in_.get<T>();
  }
  void operator()(Uuid& value) { value.bytes = in_.get_bytes<16>(); }
  void operator()(Handle& value) { value.bytes = in_.get_bytes<64>(); }
  void operator()(Secret& value) { value = in_.get_bytes<16>(); }
  void operator()(Errc& value) {
    value = errc_from_number(in_.get<std::uint16_t>());
    zeros(2);
  }
  void operator()(ErrorText& value) {
    const auto raw = in_.get_bytes<kErrorTextBytes>();
    std::memcpy(value.data(), raw.data(), raw.size());
    const auto end = std::find(value.begin(), value.end(), '\0');
    std::replace_if(
        value.begin(), end, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
    std::fill(end, value.end(), '\0');
  }
  void flag(std::uint8_t& value) {
    value = in_.get<std::uint8_t>();
    if (value > 1) valid_ = false;
  }
  void bounded(std::uint32_t& value, std::uint32_t low, std::uint32_t high) {
    value = in_.get<std::uint32_t>();
    if (value < low || value > high) valid_ = false;
  }
  void zeros(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (in_.get<std::uint8_t>() != 0) valid_ = false;
    }
  }
  /// Everything read, nothing strange, and only zeros after it.
  [[nodiscard]] bool finish() {
    zeros(in_.remaining());
    return valid_ && in_.ok();
  }

 private:
  ByteReader in_;
  bool valid_ = true;
};

void put(ByteWriter& out, const Open& m) {
  out.put(m.session_id).put_bytes(m.token).put(m.gpu_index).put(std::uint32_t{0}).put(m.gpu_uid);
}
void take(FieldReader& in, Open& m) {
  in(m.session_id), in(m.token), in(m.gpu_index), in.zeros(4), in(m.gpu_uid);
}

void put(ByteWriter& out, const AttachEvents& m) { out.put(m.session_id).put_bytes(m.token); }
void take(FieldReader& in, AttachEvents& m) { in(m.session_id), in(m.token); }

void put(ByteWriter& out, const ExportRequest& m) {
  out.put(m.export_id).put(m.generation).put(m.rank).put(m.scope).put(m.revoking).skip(3);
  out.put(m.size_bytes);
}
void take(FieldReader& in, ExportRequest& m) {
  in(m.export_id), in(m.generation), in(m.rank), in(m.scope), in.flag(m.revoking), in.zeros(3);
  in(m.size_bytes);
}

void put(ByteWriter& out, const ImportRequest& m) {
  out.put_bytes(m.handle.bytes).put(m.import_id).put(m.rank).put(m.scope);
}
void take(FieldReader& in, ImportRequest& m) {
  in(m.handle), in(m.import_id), in(m.rank), in(m.scope);
}

void put(ByteWriter& out, const UnexportRequest& m) { out.put(m.export_id); }
void take(FieldReader& in, UnexportRequest& m) { in(m.export_id); }
void put(ByteWriter& out, const UnimportRequest& m) { out.put(m.import_id); }
void take(FieldReader& in, UnimportRequest& m) { in(m.import_id); }
void put(ByteWriter& out, const RevokeAck& m) { out.put(m.import_id); }
void take(FieldReader& in, RevokeAck& m) { in(m.import_id); }
void put(ByteWriter&, const Close&) {}
void take(FieldReader&, Close&) {}

void put(ByteWriter& out, const Reply& m) {
  put_code(out, m.code);
  out.put(std::uint32_t{0}).put(m.id);
  if (m.code != Errc::kOk) return put_text(out, m.text);
  out.put_bytes(m.token).put_bytes(m.handle.bytes).put(m.size_bytes).put(m.gpu_uid);
  out.put(m.gpu_index).put(m.channel).put(m.generation).put(m.rank);
  out.put(m.node).put(std::uint16_t{0}).put(m.lease_ms);
}
void take(FieldReader& in, Reply& m) {
  in(m.code), in.zeros(4), in(m.id);
  if (m.code != Errc::kOk) return in(m.text);
  in(m.token), in(m.handle), in(m.size_bytes), in(m.gpu_uid);
  in(m.gpu_index), in(m.channel), in(m.generation), in(m.rank);
  in(m.node), in.zeros(2), in(m.lease_ms);
}

void put(ByteWriter& out, const Event& m) {
  out.put(static_cast<std::uint32_t>(m.kind)).put(m.scope).put(m.id).put(m.rank);
  put_code(out, m.reason);
  out.put(m.acknowledged).put(m.killed).put(m.silent);
}
void take(FieldReader& in, Event& m) {
  std::uint32_t kind = 0;
  in.bounded(kind, 1, static_cast<std::uint32_t>(Event::Kind::kChannelReleased));
  m.kind = static_cast<Event::Kind>(kind);
  in(m.scope), in(m.id), in(m.rank), in(m.reason);
  in(m.acknowledged), in(m.killed), in(m.silent);
}

void put(ByteWriter& out, const LinkHello& m) {
  out.put_bytes(m.domain_id.bytes).put_bytes(m.instance.bytes).put_bytes(m.boot_id.bytes);
  out.put(m.node).put(m.target);
}
void take(FieldReader& in, LinkHello& m) {
  in(m.domain_id), in(m.instance), in(m.boot_id), in(m.node), in(m.target);
}

void put(ByteWriter& out, const LinkImport& m) {
  out.put_bytes(m.handle.bytes).put(m.import_id).put(m.gpu_uid);
  out.put_bytes(m.partition_domain.bytes).put(m.partition_clique).put(m.channel);
  out.put(m.rank).put(m.known);
}
void take(FieldReader& in, LinkImport& m) {
  in(m.handle), in(m.import_id), in(m.gpu_uid), in(m.partition_domain), in(m.partition_clique);
  in(m.channel), in(m.rank), in.flag(m.known);
}

void put(ByteWriter& out, const LinkImportReply& m) {
  put_code(out, m.code);
  out.put(std::uint32_t{0}).put(m.import_id);
  if (m.code != Errc::kOk) return put_text(out, m.text);
  out.put(m.size_bytes).put(m.gpu_uid).put_bytes(m.partition_domain.bytes);
  out.put(m.partition_clique).put(m.generation).put(m.rank);
}
void take(FieldReader& in, LinkImportReply& m) {
  in(m.code), in.zeros(4), in(m.import_id);
  if (m.code != Errc::kOk) return in(m.text);
  in(m.size_bytes), in(m.gpu_uid), in(m.partition_domain);
  in(m.partition_clique), in(m.generation), in(m.rank);
}

void put(ByteWriter& out, const LinkImportEnded& m) { out.put(m.import_id).put(m.lost); }
void take(FieldReader& in, LinkImportEnded& m) { in(m.import_id), in.flag(m.lost); }

void put(ByteWriter& out, const LinkImportMoved& m) {
  out.put(m.import_id).put_bytes(m.partition_domain.bytes).put(m.partition_clique);
}
void take(FieldReader& in, LinkImportMoved& m) {
  in(m.import_id), in(m.partition_domain), in(m.partition_clique);
}

void put(ByteWriter& out, const LinkExportEnded& m) {
  out.put(m.import_id);
  put_code(out, m.reason);
  out.put(m.rank);
}
void take(FieldReader& in, LinkExportEnded& m) { in(m.import_id), in(m.reason), in(m.rank); }

void put(ByteWriter& out, const LinkRevokeAck& m) { out.put(m.import_id).put(m.outcome); }
void take(FieldReader& in, LinkRevokeAck& m) { in(m.import_id), in.bounded(m.outcome, 0, 2); }

/// An empty message of wire type `index + 1`.
template <std::size_t Index = 0>
Message empty_message(std::size_t index) {
  if constexpr (Index + 1 < kTypeCount) {
    if (index != Index) return empty_message<Index + 1>(index);
  }
  return Message(std::in_place_index<Index>);
}

}  // namespace

ErrorText make_error_text(std::string_view text) noexcept {
  ErrorText out{};
  std::copy_n(text.begin(), std::min(text.size(), out.size()), out.begin());
  return out;
}

std::string_view view_error_text(const ErrorText& text) noexcept {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return {text.data(), static_cast<std::size_t>(end - text.begin())};
}

std::size_t frame_descriptors_max(const Message& message) noexcept {
  const bool two =
      std::holds_alternative<Open>(message) || std::holds_alternative<ExportRequest>(message) ||
      std::holds_alternative<Reply>(message) || std::holds_alternative<LinkImportReply>(message);
  return two ? 2 : 0;
}

FrameBytes encode(const Frame& frame) {
  FrameBytes bytes{};
  ByteWriter out(bytes);
  out.put(kMagic).put(kFrameVersion).put(static_cast<std::uint16_t>(frame.message.index() + 1));
  out.put(frame.request_id).put(std::uint32_t{0});
  std::visit([&out](const auto& message) { put(out, message); }, frame.message);
  return bytes;
}

Result<Frame> decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kFrameBytes) {
    return fail(Errc::kDataLoss,
                fmt::format("frame: {} bytes instead of {}", bytes.size(), kFrameBytes));
  }
  ByteReader header(bytes.first(kHeaderBytes));
  const auto magic = header.get<std::uint32_t>();
  const auto version = header.get<std::uint16_t>();
  const auto type = header.get<std::uint16_t>();
  const auto request_id = header.get<std::uint32_t>();
  const auto reserved = header.get<std::uint32_t>();
  if (magic != kMagic) {
    return fail(Errc::kDataLoss,
                fmt::format("frame: magic {:#010x} is not {:#010x}", magic, kMagic));
  }
  if (version != kFrameVersion) {
    return fail(Errc::kVersionMismatch,
                fmt::format("frame: version {}, this side speaks {}", version, kFrameVersion),
                "use the same release of the library and the daemon");
  }
  if (type == 0 || type > kTypeCount) {
    return fail(Errc::kDataLoss, fmt::format("frame: unknown type {}", type));
  }
  Frame frame{request_id, empty_message(std::size_t{type} - 1)};
  FieldReader body(bytes.subspan(kHeaderBytes));
  std::visit([&body](auto& message) { take(body, message); }, frame.message);
  if (!body.finish() || reserved != 0) {
    return fail(Errc::kDataLoss, fmt::format("frame: type {} with a field out of range or reserved "
                                             "bytes that are not zero",
                                             type));
  }
  return frame;
}

}  // namespace imex::domain
