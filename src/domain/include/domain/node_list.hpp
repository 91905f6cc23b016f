/// The node list: line order gives the node id. Parsing and comparing only; resolving is elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/uuid.hpp"
#include "domain/frame.hpp"

namespace imex::domain {

/// One slot as written: an IPv4 or IPv6 address, or a host name.
struct NodeEntry {
  std::string text;
  bool is_name = false;  ///< not an address literal: resolved anew for each dial
  friend bool operator==(const NodeEntry&, const NodeEntry&) = default;
};

struct NodeList {
  std::vector<NodeEntry> entries;
  friend bool operator==(const NodeList&, const NodeList&) = default;
  /// 128-bit digest of all entries in order.
  [[nodiscard]] Uuid digest() const;
};

inline constexpr std::size_t kMaxNodes = 4096;
/// Where Kubernetes points the names of unused slots: no daemon is there (imex-service section 5).
inline constexpr std::string_view kUnassignedAddress = "127.0.0.2";

/// Blank lines and lines that start with '#' are skipped; blanks around an entry are cut.
/// Errors: kInvalidArgument with line number (bad characters, over 253 bytes, over kMaxNodes
/// entries, an entry twice).
[[nodiscard]] Result<NodeList> parse_node_list(std::string_view text);

/// What handles, links and journals carry as domain: the configured id, else a digest of the first
/// entry, which stays the same while a list grows. (Membership takes the configured id only, else
/// nil.)
[[nodiscard]] Uuid domain_identity(const std::optional<Uuid>& configured, const NodeList& list);

/// How two lists must agree for their nodes to talk.
enum class ListRule : std::uint8_t {
  kIdentical = 0,  ///< as nvidia-imex: same entries, same order, same length
  kPrefix = 1,     ///< as imexd: equal where both have a slot, so that lists can grow live
};
[[nodiscard]] bool lists_agree(const NodeList& ours, const NodeList& theirs,
                               ListRule rule) noexcept;

}  // namespace imex::domain
