/// The 256-byte frames of the channel socket and of the link between daemons on one machine.
/// Byte layout with examples: docs/formats/channel.md. Codec only; no I/O, no policy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include <imex/handle.hpp>

#include "base/result.hpp"
#include "base/uuid.hpp"

namespace imex::domain {

inline constexpr std::size_t kFrameBytes = 256;
inline constexpr std::uint16_t kFrameVersion = 1;
using FrameBytes = std::array<std::byte, kFrameBytes>;

using SessionId = std::uint64_t;
using ExportId = std::uint64_t;
using ImportId = std::uint64_t;
using NodeId = std::uint16_t;
inline constexpr NodeId kNoNode = 0xffff;
inline constexpr std::uint32_t kNoScope = 0xffff'ffffU;
/// Scopes of one abort page: the default one (0) and 62 more. A higher number is refused.
inline constexpr std::uint32_t kAbortScopesMax = 63;
/// Room for the message of an error reply; a longer one is cut.
inline constexpr std::size_t kErrorTextBytes = 192;
using ErrorText = std::array<char, kErrorTextBytes>;
using Secret = std::array<std::byte, 16>;

// ---- client to daemon (each answered by a Reply of the same request id) ----

/// Descriptors: abort page (4 KiB memfd, sealed against shrinking), pidfd of the caller.
/// session_id 0 opens a new session; otherwise resumes that one, proven by `token`.
struct Open {
  SessionId session_id = 0;
  Secret token{};
  std::uint32_t gpu_index = 0;  ///< kAnyGpu: any that the channel allows
  std::uint64_t gpu_uid = 0;    ///< 0: by index
  friend bool operator==(const Open&, const Open&) = default;
};
/// First frame of a second connection: events of the session go here instead of the first one.
struct AttachEvents {
  SessionId session_id = 0;
  Secret token{};
  friend bool operator==(const AttachEvents&, const AttachEvents&) = default;
};
/// Descriptors: data memfd, control memfd (segment header).
/// export_id 0 makes a new export; otherwise registers that one again (resume), or, with a
/// generation one higher than known, exports it anew after a revocation. Only the session that made
/// an export can register it again: the id itself carries a proof (docs/formats/channel.md).
struct ExportRequest {
  ExportId export_id = 0;
  std::uint32_t generation = 1;
  std::uint32_t rank = 0;
  std::uint32_t scope = kNoScope;
  std::uint64_t size_bytes = 0;
  /// 1 with a resumed export that was told kExportRevoked and not yet kExportQuiescent: nobody may
  /// import it, and kExportQuiescent follows once the importers that are left have acknowledged.
  std::uint8_t revoking = 0;
  friend bool operator==(const ExportRequest&, const ExportRequest&) = default;
};
/// import_id 0 imports; otherwise registers that import again (resume; no descriptors come back).
/// A re-registration answered with anything but kOk or kUnavailable means: the memory is no longer
/// shared (kRevoked: unmap it; else as if kExporterLost had come).
struct ImportRequest {
  Handle handle;
  ImportId import_id = 0;
  std::uint32_t rank = 0;
  std::uint32_t scope = 0;
  friend bool operator==(const ImportRequest&, const ImportRequest&) = default;
};
struct UnexportRequest {
  ExportId export_id = 0;
  friend bool operator==(const UnexportRequest&, const UnexportRequest&) = default;
};
struct UnimportRequest {
  ImportId import_id = 0;
  friend bool operator==(const UnimportRequest&, const UnimportRequest&) = default;
};
/// Not answered. The importer has unmapped the revoked memory.
/// import_id 0, after a resume: all that this session has mapped is registered again; a revoked
/// export need not wait for anything else of it. A daemon that does not know this ignores it, one
/// that does not hear it waits for the lease.
struct RevokeAck {
  ImportId import_id = 0;
  friend bool operator==(const RevokeAck&, const RevokeAck&) = default;
};
/// Orderly end of the session: what follows end-of-file is not a loss. Not answered.
struct Close {
  friend bool operator==(const Close&, const Close&) = default;
};

// ---- daemon to client ----

/// Answer to any request. Descriptors with an import: data memfd, control memfd.
/// With a code other than kOk only `code`, `id` and `text` travel; with kOk all but `text`.
struct Reply {
  Errc code = Errc::kOk;
  std::uint64_t id = 0;          ///< session, export or import id
  Secret token{};                ///< Open: what resumes the session
  Handle handle{};               ///< Export
  std::uint64_t size_bytes = 0;  ///< Import
  std::uint64_t gpu_uid = 0;     ///< Open: own GPU; Import: exporter's GPU
  std::uint32_t gpu_index = 0;   ///< Open
  std::uint32_t channel = 0;     ///< Open
  std::uint32_t generation = 0;  ///< Export, Import
  std::uint32_t rank = 0;        ///< Import: exporter's rank
  NodeId node = kNoNode;         ///< Open: own node; Import: exporter's node
  std::uint32_t lease_ms = 0;    ///< Open: how long a lost daemon is waited for
  ErrorText text{};              ///< error: message, NUL-padded, cut if longer
  friend bool operator==(const Reply&, const Reply&) = default;
};
/// Without being asked (request id 0).
struct Event {
  enum class Kind : std::uint32_t {
    kExporterLost = 1,
    kImporterLost = 2,
    kRevokeImport = 3,
    kExportRevoked = 4,
    kExportQuiescent = 5,
    kShuttingDown = 6,
    kChannelReleased = 7,  ///< the last one of its session; the daemon goes on
  };
  Kind kind = Kind::kExporterLost;
  std::uint64_t id = 0;  ///< import id (1, 3), export id (2, 4, 5), channel (7)
  std::uint32_t scope = kNoScope;
  std::uint32_t rank = 0;  ///< of the peer concerned
  Errc reason = Errc::kOk;
  std::uint32_t acknowledged = 0, killed = 0, silent = 0;  ///< kExportQuiescent
  friend bool operator==(const Event&, const Event&) = default;
};

// ---- daemon to daemon, same machine ----

struct LinkHello {
  Uuid domain_id;
  Uuid instance;
  Uuid boot_id;
  NodeId node = kNoNode;
  NodeId target = kNoNode;
  friend bool operator==(const LinkHello&, const LinkHello&) = default;
};
/// Importer's daemon asks exporter's. Answered by LinkImportReply with the same request id.
/// `known` != 0: the import is already mapped; register it again (either daemon restarted).
struct LinkImport {
  Handle handle;
  std::uint32_t channel = 0;
  std::uint64_t gpu_uid = 0;
  Uuid partition_domain;
  std::uint32_t partition_clique = 0;
  std::uint32_t rank = 0;
  ImportId import_id = 0;  ///< of the importer's daemon; with its node the key of the import
  std::uint8_t known = 0;
  friend bool operator==(const LinkImport&, const LinkImport&) = default;
};
/// Descriptors: data memfd, control memfd (when code is kOk and it was not `known`).
/// With a code other than kOk only `code`, `import_id` and `text` travel; with kOk all but `text`.
struct LinkImportReply {
  Errc code = Errc::kOk;
  ImportId import_id = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t gpu_uid = 0;
  Uuid partition_domain;
  std::uint32_t partition_clique = 0;
  std::uint32_t generation = 0;
  std::uint32_t rank = 0;
  ErrorText text{};
  friend bool operator==(const LinkImportReply&, const LinkImportReply&) = default;
};
/// Importer to exporter: the import ended (lost: its process died without unmapping in order).
struct LinkImportEnded {
  ImportId import_id = 0;
  std::uint8_t lost = 0;
  friend bool operator==(const LinkImportEnded&, const LinkImportEnded&) = default;
};
/// Importer to exporter: the importing GPU is in another partition now.
struct LinkImportMoved {
  ImportId import_id = 0;
  Uuid partition_domain;
  std::uint32_t partition_clique = 0;
  friend bool operator==(const LinkImportMoved&, const LinkImportMoved&) = default;
};
/// Exporter to importer: the exporting process is gone (reason kPeerLost), ended the export in
/// order (kOk: nothing is aborted, the mapping stays), or the fabric withdrew it (kRevoked:
/// acknowledge).
struct LinkExportEnded {
  ImportId import_id = 0;
  Errc reason = Errc::kOk;
  std::uint32_t rank = 0;
  friend bool operator==(const LinkExportEnded&, const LinkExportEnded&) = default;
};
/// Importer to exporter, after kRevoked: unmapped (0), killed (1), silent and not killable (2).
/// import_id 0: as RevokeAck's, for all processes of the importer's node, once per link.
struct LinkRevokeAck {
  ImportId import_id = 0;
  std::uint32_t outcome = 0;
  friend bool operator==(const LinkRevokeAck&, const LinkRevokeAck&) = default;
};

/// Order is the wire's message type: index + 1. Append only.
using Message =
    std::variant<Open, AttachEvents, ExportRequest, ImportRequest, UnexportRequest, UnimportRequest,
                 RevokeAck, Close, Reply, Event, LinkHello, LinkImport, LinkImportReply,
                 LinkImportEnded, LinkImportMoved, LinkExportEnded, LinkRevokeAck>;

struct Frame {
  std::uint32_t request_id = 0;  ///< chosen by the asker; 0: not asked for
  Message message;
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// `text` as far as it fits, NUL-padded.
[[nodiscard]] ErrorText make_error_text(std::string_view text) noexcept;
/// Up to the first NUL; borrows `text`. decode() has replaced control characters.
[[nodiscard]] std::string_view view_error_text(const ErrorText& text) noexcept;

/// How many descriptors travel with a frame of this type, at most.
[[nodiscard]] std::size_t frame_descriptors_max(const Message& message) noexcept;

[[nodiscard]] FrameBytes encode(const Frame& frame);
/// Errors: kDataLoss (size, magic, type, reserved bytes not zero), kVersionMismatch.
[[nodiscard]] Result<Frame> decode(std::span<const std::byte> bytes);

}  // namespace imex::domain
