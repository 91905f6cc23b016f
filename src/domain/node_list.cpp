#include "domain/node_list.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <sodium.h>

namespace imex::domain {
namespace {

constexpr std::size_t kNameBytesMax = 253;  // of a DNS name in text form (RFC 1035, 2.3.4)
constexpr std::size_t kLabelBytesMax = 63;
constexpr std::size_t kProblemsShown = 8;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_label_char(char c) { return is_alnum(c) || c == '-' || c == '_'; }

/// The address in one spelling, so that "::1" and "0::1" are seen as the same; empty: not an
/// address.
std::string canonical_address(const std::string& text) {
  // To inet_pton() a NUL is the end, and whatever follows it would be taken for a part of the
  // address.
  if (text.find('\0') != std::string::npos) return {};
  char out[INET6_ADDRSTRLEN] = {};
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return text;
  const auto zone = text.find('%');
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.substr(0, zone).c_str(), &v6) != 1) return {};
  std::string canonical = inet_ntop(AF_INET6, &v6, out, sizeof out);
  if (zone == std::string::npos) return canonical;
  const std::string_view name = std::string_view(text).substr(zone + 1);
  const bool usable =
      !name.empty() && name.size() < 16 &&  // IFNAMSIZ
      std::ranges::all_of(name, [](char c) { return is_label_char(c) || c == '.'; });
  return usable ? canonical + text.substr(zone) : std::string();
}

/// What is wrong with a host name; empty: nothing.
std::string name_problem(std::string_view name) {
  if (name.size() > kNameBytesMax) {
    return fmt::format("{} bytes long, a host name has at most {}", name.size(), kNameBytesMax);
  }
  if (name.ends_with('.')) name.remove_suffix(1);  // fully qualified
  std::string_view label;
  for (std::size_t at = 0; at <= name.size(); at += label.size() + 1) {
    label = name.substr(at, name.find('.', at) - at);
    if (label.empty()) return "a part between dots is empty";
    if (label.size() > kLabelBytesMax) {
      return fmt::format("a part of {} bytes, at most {} are allowed", label.size(),
                         kLabelBytesMax);
    }
    if (!std::ranges::all_of(label, is_label_char)) {
      return "neither an address nor a host name (letters, digits, '-', '_', '.')";
    }
    if (label.front() == '-' || label.back() == '-') return "a part starts or ends with '-'";
  }
  // No top-level domain is a number, so this is a mistyped address, not a name to ask the DNS for.
  if (std::ranges::all_of(label, [](char c) { return c >= '0' && c <= '9'; })) {
    return "looks like an IPv4 address, but is none";
  }
  return {};
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 64)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (text.size() > 64 ? "...'" : "'");
}

class Parser {
 public:
  void line(std::string_view text, std::size_t number) {
    const std::string_view cut = trim(text);
    if (cut.empty() || cut.front() == '#') return;
    if (list_.entries.size() == kMaxNodes) {
      if (!full_) problem(number, fmt::format("more than {} nodes", kMaxNodes));
      full_ = true;
      return;
    }
    NodeEntry entry{std::string(cut), false};
    std::string key = canonical_address(entry.text);
    if (key.empty()) {
      entry.is_name = true;
      if (const std::string why = name_problem(cut); !why.empty()) {
        problem(number, quoted(cut) + ": " + why);
        return;
      }
      key = lower(entry.text);
    }
    const auto [first, fresh] = lines_.try_emplace(std::move(key), number);
    if (!fresh) {
      problem(number, fmt::format("{} stands in line {} already", quoted(cut), first->second));
      return;
    }
    list_.entries.push_back(std::move(entry));
  }

  Result<NodeList> finish() && {
    if (count_ == 0) return std::move(list_);
    if (count_ > kProblemsShown) problems_ += fmt::format("; and {} more", count_ - kProblemsShown);
    return fail(Errc::kInvalidArgument, "node list: " + problems_,
                "write one IPv4 address, IPv6 address or host name per line");
  }

 private:
  void problem(std::size_t number, std::string_view what) {
    if (++count_ > kProblemsShown) return;
    problems_ += fmt::format("{}line {}: {}", count_ == 1 ? "" : "; ", number, what);
  }

  NodeList list_;
  std::map<std::string, std::size_t, std::less<>> lines_;  // canonical entry -> line
  std::string problems_;
  std::size_t count_ = 0;
  bool full_ = false;
};

Uuid digest_of(std::span<const NodeEntry> entries) {
  crypto_generichash_state state;
  Uuid digest;
  crypto_generichash_init(&state, nullptr, 0, digest.bytes.size());
  for (const NodeEntry& entry : entries) {
    const std::string line = entry.text + '\n';  // no entry contains one: unambiguous
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(line.data()),
                              line.size());
  }
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(digest.bytes.data()),
                           digest.bytes.size());
  return digest;
}

}  // namespace

Uuid NodeList::digest() const { return digest_of(entries); }

Result<NodeList> parse_node_list(std::string_view text) {
  Parser parser;
  for (std::size_t at = 0, number = 1; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    parser.line(text.substr(at, end - at), number);
    at = end + 1;
  }
  return std::move(parser).finish();
}

Uuid domain_identity(const std::optional<Uuid>& configured, const NodeList& list) {
  if (configured) return *configured;
  return digest_of(std::span(list.entries).first(std::min<std::size_t>(1, list.entries.size())));
}

bool lists_agree(const NodeList& ours, const NodeList& theirs, ListRule rule) noexcept {
  if (rule == ListRule::kIdentical) return ours == theirs;
  const std::size_t shared = std::min(ours.entries.size(), theirs.entries.size());
  return std::equal(ours.entries.begin(),
                    ours.entries.begin() + static_cast<std::ptrdiff_t>(shared),
                    theirs.entries.begin());
}

}  // namespace imex::domain
