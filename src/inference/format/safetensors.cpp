#include "inference/format/safetensors.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/bytes.hpp"
#include "inference/json/json_document.hpp"
#include "os/file.hpp"
#include "text_view.hpp"

namespace imex::inference {

namespace {

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
constexpr std::size_t kDepthMax = 16;
constexpr std::string_view kWholeName = "model.safetensors";

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

std::optional<std::vector<std::uint64_t>> counts(element value) {
  array list;
  if (value.get(list) != simdjson::SUCCESS) return std::nullopt;
  std::vector<std::uint64_t> found;
  for (const element one : list) {
    std::uint64_t count = 0;
    if (one.get(count) != simdjson::SUCCESS) return std::nullopt;
    found.push_back(count);
  }
  return found;
}

/// A tensor and where its data should begin and end.
struct Entry {
  Tensor tensor;
  std::uint64_t begin = 0, end = 0;
};

Result<TensorType> read_type(std::string_view tensor, element description) {
  std::string_view name;
  if (description.at_key("dtype").get(name) != simdjson::SUCCESS) {
    return fail(Errc::kDataLoss, fmt::format("tensor '{}' has no type", tensor));
  }
  // Our names are those of this format, and blocks of quantised values are not in it.
  const auto found = find_type(name);
  if (found && layout_of(*found).block_elements == 1) return *found;
  return fail(Errc::kUnsupported, fmt::format("tensor '{}' has type {}", tensor, name));
}

Result<Entry> read_entry(std::string_view name, element description) {
  Entry entry;
  entry.tensor.name = name;
  IMEX_TRY(entry.tensor.type, read_type(name, description));
  element shape;
  element offsets;
  const bool there = description.at_key("shape").get(shape) == simdjson::SUCCESS &&
                     description.at_key("data_offsets").get(offsets) == simdjson::SUCCESS;
  const auto sizes = there ? counts(shape) : std::nullopt;
  const auto range = there ? counts(offsets) : std::nullopt;
  if (!sizes || !range || range->size() != 2 || (*range)[0] > (*range)[1]) {
    return fail(Errc::kDataLoss, fmt::format("tensor '{}' lacks a shape or a range of data", name));
  }
  entry.tensor.shape = *sizes;
  entry.begin = (*range)[0];
  entry.end = (*range)[1];
  auto bytes = tensor_bytes(entry.tensor.type, entry.tensor.shape);
  if (!bytes) return fail(std::move(bytes).error().context(fmt::format("tensor '{}'", name)));
  if (*bytes != entry.end - entry.begin) {
    return fail(Errc::kDataLoss,
                fmt::format("tensor '{}' of shape {} takes {} bytes, not {}", name,
                            format_shape(entry.tensor.shape), *bytes, entry.end - entry.begin));
  }
  return entry;
}

Result<void> read_metadata(element value, std::map<std::string, std::string>& out) {
  object fields;
  if (value.get(fields) != simdjson::SUCCESS) {
    return fail(Errc::kDataLoss, "__metadata__ is not an object");
  }
  for (const auto field : fields) {
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return fail(Errc::kDataLoss, fmt::format("__metadata__ '{}' is not a string", field.key));
    }
    out.emplace(field.key, text);
  }
  return {};
}

/// Sorted by place, each begins where the one before ended, and the last ends the file.
Result<void> check_cover(std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return fail(Errc::kDataLoss,
                  fmt::format("tensor '{}' begins at byte {} of the data, not at {}",
                              entry.tensor.name, entry.begin, at));
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    return fail(Errc::kDataLoss,
                fmt::format("tensors take {} bytes, the file has {}", at, data_bytes),
                "the file is truncated or damaged; fetch it again");
  }
  return {};
}

Result<std::string_view> header_of(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto size = reader.get<std::uint64_t>();
  if (reader.ok() && size > kHeaderBytesMax) {
    return fail(Errc::kDataLoss,
                fmt::format("a header of {} bytes; at most {} are allowed", size, kHeaderBytesMax));
  }
  const auto header = reader.view(size);
  if (!reader.ok()) return fail(Errc::kDataLoss, "the file ends inside its header");
  if (header.empty() || header[0] != std::byte{'{'}) {
    return fail(Errc::kDataLoss, "not a safetensors file: the header is not JSON");
  }
  return as_text(header);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  IMEX_TRY(auto mapping, os::map_file(path));
  auto file = parse(mapping.bytes());
  if (!file) return fail(std::move(file).error().context(fmt::format("'{}'", path)));
  file->mapping_ = std::move(mapping);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes) {
  IMEX_TRY(const auto header, header_of(bytes));
  const auto data = bytes.subspan(sizeof(std::uint64_t) + header.size());
  JsonDocument document(kDepthMax);
  IMEX_TRY(const auto fields, document.parse<object>(header, "header"));
  SafetensorsFile file;
  file.file_bytes_ = bytes.size();
  std::vector<Entry> entries;
  for (const auto field : fields) {
    if (field.key == "__metadata__") {
      IMEX_CHECK_OK(read_metadata(field.value, file.metadata_));
      continue;
    }
    IMEX_TRY(auto entry, read_entry(field.key, field.value));
    entries.push_back(std::move(entry));
  }
  IMEX_CHECK_OK(check_cover(entries, data.size()));
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    file.tensors_.push_back(std::move(entry.tensor));
  }
  return file;
}

Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text) {
  JsonDocument document(kDepthMax);
  IMEX_TRY(const auto fields, document.parse<object>(text, "model.safetensors.index.json"));
  object weights;
  if (fields.at_key("weight_map").get(weights) != simdjson::SUCCESS) {
    return fail(Errc::kDataLoss, "model.safetensors.index.json has no 'weight_map'");
  }
  std::map<std::string, std::string> map;
  for (const auto field : weights) {
    std::string_view file;
    if (field.value.get(file) != simdjson::SUCCESS || file.empty() || file.starts_with('.') ||
        file.find('/') != file.npos || file.find('\0') != file.npos) {
      return fail(
          Errc::kDataLoss,
          fmt::format("model.safetensors.index.json: tensor '{}' is in no file of the folder",
                      field.key));
    }
    map.emplace(field.key, file);
  }
  return map;
}

namespace {

/// Every tensor of the index is in the file that it names.
Result<void> check_shards(const std::map<std::string, std::string>& index,
                          const std::map<std::string, std::set<std::string>>& found) {
  for (const auto& [tensor, shard] : index) {
    if (!found.at(shard).contains(tensor)) {
      return fail(Errc::kDataLoss,
                  fmt::format("tensor '{}' is not in '{}', where the index says", tensor, shard));
    }
  }
  return {};
}

Result<std::vector<SafetensorsFile>> open_shards(const std::string& folder,
                                                 const std::map<std::string, std::string>& index) {
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index) shards.insert(shard);
  std::vector<SafetensorsFile> files;
  std::vector<std::string> missing;
  std::map<std::string, std::set<std::string>> found;
  for (const std::string& shard : shards) {
    auto file = SafetensorsFile::open(fmt::format("{}/{}", folder, shard));
    if (!file && file.error().code == Errc::kNotFound) {
      missing.push_back(shard);
      continue;
    }
    if (!file) return fail(std::move(file).error());
    std::set<std::string>& names = found[shard];
    for (const Tensor& tensor : file->tensors()) names.insert(tensor.name);
    files.push_back(std::move(*file));
  }
  if (!missing.empty()) {
    return fail(Errc::kNotFound,
                fmt::format("'{}' lacks {} of {} shards: {}", folder, missing.size(), shards.size(),
                            fmt::join(missing, ", ")));
  }
  IMEX_CHECK_OK(check_shards(index, found));
  return files;
}

Result<std::vector<SafetensorsFile>> open_one(const std::string& path) {
  IMEX_TRY(auto file, SafetensorsFile::open(path));
  std::vector<SafetensorsFile> files;
  files.push_back(std::move(file));
  return files;
}

using Index = std::map<std::string, std::string>;

/// None where the folder has no index.
Result<std::optional<Index>> read_index(const std::string& folder) {
  auto text = os::read_file(folder + "/model.safetensors.index.json", std::size_t{64} << 20U);
  if (!text && text.error().code == Errc::kNotFound) return std::optional<Index>();
  if (!text) return fail(std::move(text).error());
  IMEX_TRY(auto index, parse_safetensors_index(*text));
  return std::optional(std::move(index));
}

bool names_file(const Index& index, std::string_view file) {
  return std::ranges::any_of(index, [&](const auto& entry) { return entry.second == file; });
}

}  // namespace

Result<std::vector<SafetensorsFile>> open_safetensors_folder(const std::string& folder) {
  std::error_code ignored;
  const bool whole = std::filesystem::exists(folder + "/" + std::string(kWholeName), ignored);
  IMEX_TRY(const auto index, read_index(folder));
  if (!index) return open_one(folder + "/" + std::string(kWholeName));
  if (whole && !names_file(*index, kWholeName)) {
    return fail(
        Errc::kInvalidArgument,
        fmt::format("'{}' holds model.safetensors and an index that does not name it", folder),
        "open the file that is meant, or remove the other");
  }
  return open_shards(folder, *index);
}

Result<std::vector<SafetensorsFile>> open_safetensors_file(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  IMEX_TRY(const auto index, read_index(folder));
  if (index && names_file(*index, file.filename().string())) return open_shards(folder, *index);
  return open_one(path);
}

}  // namespace imex::inference
