#include "fabric/file_view.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "os/file.hpp"

namespace imex::fabric {

namespace {

constexpr std::size_t kFileBytesMax = 1U << 20U;

/// Reads the keys of one [[gpu]] table; the first problem stays.
class GpuReader {
 public:
  GpuReader(const toml::table& table, const std::string& path) : table_(table), path_(path) {}

  Result<Gpu> read() {
    Gpu gpu;
    check_keys();
    gpu.index = static_cast<std::uint32_t>(number("index", kGpusMax - 1));
    gpu.uid = uid();
    gpu.partition.domain_uuid = domain();
    gpu.partition.clique_id =
        static_cast<std::uint32_t>(number("clique_id", std::numeric_limits<std::uint32_t>::max()));
    if (const toml::node* node = table_.get("attached")) {
      if (node->is_boolean()) {
        gpu.attached = node->as_boolean()->get();
      } else {
        problem(*node, "attached", "want true or false");
      }
    }
    if (problem_.empty()) return gpu;
    return fail(Errc::kInvalidArgument, problem_);
  }

 private:
  void problem(const toml::node& node, std::string_view key, std::string_view what) {
    if (!problem_.empty()) return;
    problem_ = fmt::format("{}:{}: {}: {}", path_, node.source().begin.line, key, what);
  }

  void check_keys() {
    static const std::set<std::string_view> kKnown = {"index", "uid", "domain_uuid", "clique_id",
                                                      "attached"};
    for (const auto& [key, value] : table_) {
      if (!kKnown.contains(key.str())) problem(value, key.str(), "unknown key");
    }
  }

  const toml::node* wanted(std::string_view key) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) problem(table_, key, "missing");
    return node;
  }

  std::uint64_t number(std::string_view key, std::uint64_t max) {
    const toml::node* node = wanted(key);
    if (node == nullptr) return 0;
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < 0 || static_cast<std::uint64_t>(value->get()) > max) {
      problem(*node, key, fmt::format("want a number from 0 to {}", max));
      return 0;
    }
    return static_cast<std::uint64_t>(value->get());
  }

  /// TOML's integers end at 2^63: a larger uid stands in quotes.
  std::uint64_t uid() {
    const toml::node* node = wanted("uid");
    if (node == nullptr) return 0;
    std::uint64_t value = 0;
    if (const auto* plain = node->as_integer(); plain != nullptr && plain->get() > 0) {
      value = static_cast<std::uint64_t>(plain->get());
    } else if (const auto* quoted = node->as_string(); quoted != nullptr) {
      std::string_view text = quoted->get();
      const int base = text.starts_with("0x") ? 16 : 10;
      if (base == 16) text.remove_prefix(2);
      const auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), value, base);
      if (error != std::errc() || end != text.data() + text.size()) value = 0;
    }
    if (value == 0) problem(*node, "uid", "want a number from 1 to 2^64 - 1");
    return value;
  }

  Uuid domain() {
    const toml::node* node = wanted("domain_uuid");
    if (node == nullptr) return {};
    if (const auto* text = node->as_string()) {
      if (auto parsed = Uuid::parse(text->get())) return *parsed;
    }
    problem(*node, "domain_uuid", "want a UUID in quotes");
    return {};
  }

  const toml::table& table_;
  const std::string& path_;
  std::string problem_;
};

Result<void> check_distinct(const std::vector<Gpu>& gpus, const std::string& path) {
  std::set<std::uint32_t> indexes;
  std::set<std::uint64_t> uids;
  for (const Gpu& gpu : gpus) {
    if (!indexes.insert(gpu.index).second) {
      return fail(Errc::kInvalidArgument, fmt::format("{}: index {} twice", path, gpu.index));
    }
    if (!uids.insert(gpu.uid).second) {
      return fail(Errc::kInvalidArgument, fmt::format("{}: uid {:#x} twice", path, gpu.uid));
    }
  }
  return {};
}

/// The library as Debian builds it reports by exceptions; they end here.
Result<toml::table> parse_toml(std::string_view text, const std::string& path) try {
  return toml::parse(text, path);
} catch (const toml::parse_error& error) {
  return fail(Errc::kInvalidArgument,
              fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
}

}  // namespace

Result<std::vector<Gpu>> parse_fabric_file(std::string_view text, const std::string& path) {
  IMEX_TRY(const toml::table parsed, parse_toml(text, path));
  std::vector<Gpu> gpus;
  for (const auto& [key, value] : parsed) {
    const auto* list = value.as_array();
    if (key.str() != "gpu" || list == nullptr || list->size() > kGpusMax) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("{}:{}: {}: want at most {} [[gpu]] tables and nothing else", path,
                              value.source().begin.line, key.str(), kGpusMax));
    }
    for (const toml::node& entry : *list) {
      const auto* table = entry.as_table();
      if (table == nullptr) {
        return fail(Errc::kInvalidArgument,
                    fmt::format("{}:{}: gpu: want a table", path, entry.source().begin.line));
      }
      IMEX_TRY(const Gpu gpu, GpuReader(*table, path).read());
      gpus.push_back(gpu);
    }
  }
  IMEX_CHECK_OK(check_distinct(gpus, path));
  std::ranges::sort(gpus, {}, &Gpu::index);
  return gpus;
}

Result<std::unique_ptr<FileView>> FileView::open(net::EventLoop& loop, std::string path,
                                                 std::function<void(const Error&)> on_error) {
  IMEX_TRY(const std::string text, os::read_file(path, kFileBytesMax));
  IMEX_TRY(std::vector<Gpu> gpus, parse_fabric_file(text, path));
  std::unique_ptr<FileView> view(new FileView(path, std::move(gpus), std::move(on_error)));
  IMEX_TRY(view->watch_,
           net::FileWatch::start(loop, std::move(path), [raw = view.get()] { raw->read_again(); }));
  view->read_again();  // what changed between reading and watching
  return view;
}

FileView::FileView(std::string path, std::vector<Gpu> gpus,
                   std::function<void(const Error&)> on_error)
    : path_(std::move(path)), gpus_(std::move(gpus)), on_error_(std::move(on_error)) {}

void FileView::subscribe(std::function<void(const std::vector<Gpu>&)> on_change) {
  on_change_ = std::move(on_change);
}

void FileView::read_again() {
  auto text = os::read_file(path_, kFileBytesMax);
  if (!text) return on_error_(text.error());
  // An editor's first step, and a writer's that truncates: the rest follows with its own event.
  auto gpus = parse_fabric_file(*text, path_);
  if (!gpus) return on_error_(gpus.error());
  if (*gpus == gpus_) return;
  gpus_ = std::move(*gpus);
  if (on_change_) on_change_(gpus_);
}

}  // namespace imex::fabric
