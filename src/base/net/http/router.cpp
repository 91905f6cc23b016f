#include "net/http/router.hpp"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace imex::net::http {

namespace {

constexpr std::size_t kSegmentsMax = 64;
constexpr std::size_t kMethodCount = static_cast<std::size_t>(Method::kConnect) + 1;

/// "/a//b" to {"a", "", "b"}; "/" to {""}.
std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  path.remove_prefix(1);
  for (std::size_t end = 0; end != std::string_view::npos && segments.size() <= kSegmentsMax;) {
    end = path.find('/');
    segments.push_back(path.substr(0, end));
    if (end != std::string_view::npos) path.remove_prefix(end + 1);
  }
  return segments;
}

/// The name in "{name}".
std::optional<std::string_view> name_in(std::string_view segment) {
  if (segment.size() < 3 || segment.front() != '{' || segment.back() != '}') return std::nullopt;
  return segment.substr(1, segment.size() - 2);
}

}  // namespace

struct Router::Node {
  struct Leaf {
    Route route;
    std::vector<std::string> names;  ///< of the parameters, in order
    bool takes_rest = false;
  };
  using Leaves = std::array<std::unique_ptr<Leaf>, kMethodCount>;

  std::map<std::string, std::unique_ptr<Node>, std::less<>> literal;
  std::unique_ptr<Node> any;  ///< below "{name}"
  Leaves here;
  Leaves rest;  ///< "{name...}" starts here
};

namespace {

using Values = std::vector<std::string_view>;

}  // namespace

Router::Router() : root_(std::make_unique<Node>()) {}
Router::~Router() = default;
Router::Router(Router&&) noexcept = default;
Router& Router::operator=(Router&&) noexcept = default;

void Router::add(Method method, std::string_view pattern, Handler handler, RouteOptions options) {
  IMEX_ASSERT(pattern.starts_with('/') && handler, "a pattern starts with a slash");
  Node* node = root_.get();
  auto leaf = std::make_unique<Node::Leaf>();
  for (const std::string_view segment : segments_of(pattern)) {
    IMEX_ASSERT(!leaf->takes_rest, "nothing comes after {name...}");
    const auto name = name_in(segment);
    if (!name) {
      auto& child = node->literal[std::string(segment)];
      if (!child) child = std::make_unique<Node>();
      node = child.get();
    } else if (name->ends_with("...")) {
      leaf->names.emplace_back(name->substr(0, name->size() - 3));
      leaf->takes_rest = true;
    } else {
      leaf->names.emplace_back(*name);
      if (!node->any) node->any = std::make_unique<Node>();
      node = node->any.get();
    }
  }
  leaf->route = {std::string(pattern), std::move(handler), options};
  auto& place = (leaf->takes_rest ? node->rest : node->here)[static_cast<std::size_t>(method)];
  IMEX_ASSERT(!place, "one handler per method and pattern");
  place = std::move(leaf);
}

namespace {

/// One walk over the tree: literals first, names after, the rest last.
template <class Node>
class Search {
 public:
  Search(const std::vector<std::string_view>& segments, Method method)
      : segments_(segments), method_(method) {}

  /// The leaf of the method, with values() set; or null.
  const typename Node::Leaf* at(const Node& node, std::size_t depth) {
    if (depth == segments_.size()) return choose(node.here);
    const std::string_view segment = segments_[depth];
    if (const auto child = node.literal.find(segment); child != node.literal.end()) {
      if (const auto* leaf = at(*child->second, depth + 1)) return leaf;
    }
    if (segment.empty()) return nullptr;
    if (node.any) {
      values_.push_back(segment);
      if (const auto* leaf = at(*node.any, depth + 1)) return leaf;
      values_.pop_back();
    }
    const auto* leaf = choose(node.rest);
    if (leaf != nullptr) {
      values_.emplace_back(segment.data(),
                           static_cast<std::size_t>(segments_.back().data() +
                                                    segments_.back().size() - segment.data()));
    }
    return leaf;
  }
  [[nodiscard]] const Values& values() const noexcept { return values_; }
  [[nodiscard]] std::string allow() const {
    std::string text;
    for (std::size_t i = 0; i < kMethodCount; ++i) {
      if (!others_[i]) continue;
      text += fmt::format("{}{}", text.empty() ? "" : ", ", method_name(static_cast<Method>(i)));
    }
    return text;
  }

 private:
  const typename Node::Leaf* choose(const typename Node::Leaves& leaves) {
    const auto get = static_cast<std::size_t>(Method::kGet);
    const auto wanted = static_cast<std::size_t>(method_);
    if (leaves[wanted]) return leaves[wanted].get();
    if (method_ == Method::kHead && leaves[get]) return leaves[get].get();
    for (std::size_t i = 0; i < kMethodCount; ++i) others_[i] = others_[i] || leaves[i];
    if (leaves[get]) others_[static_cast<std::size_t>(Method::kHead)] = true;
    return nullptr;
  }

  const std::vector<std::string_view>& segments_;
  Method method_;
  Values values_;
  std::array<bool, kMethodCount> others_{};
};

}  // namespace

Router::Found Router::find(Method method, std::string_view path) const {
  if (!path.starts_with('/')) return BadPath{"the path must start with a slash"};
  const std::vector<std::string_view> segments = segments_of(path);
  if (segments.size() > kSegmentsMax) return NoSuchPath{};
  Search<Node> search(segments, method);
  const Node::Leaf* leaf = search.at(*root_, 0);
  if (leaf == nullptr) {
    std::string allow = search.allow();
    if (allow.empty()) return NoSuchPath{};
    return NoSuchMethod{std::move(allow)};
  }
  Match match{&leaf->route, {}};
  for (std::size_t i = 0; i < leaf->names.size(); ++i) {
    auto value = percent_decoded(search.values()[i], false);
    if (!value) return BadPath{std::move(value).error().message};
    match.parameters.emplace_back(leaf->names[i], std::move(*value));
  }
  return match;
}

}  // namespace imex::net::http
