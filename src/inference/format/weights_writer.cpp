#include "inference/format/weights_writer.hpp"

#include <algorithm>
#include <concepts>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "crc32.hpp"
#include "os/file.hpp"
#include "tensors_cipher.hpp"
#include "tensors_records.hpp"
#include "text_view.hpp"

namespace imex::inference {

namespace {

// The original keeps room for a table of this size, whatever it holds.
constexpr std::size_t kTableBytes = 262'144, kTensorsFrontBytes = 73;
constexpr std::size_t kHashBlockBytes = 1 + (2 + 4) + (2 + 32);

template <std::integral T>
void put(std::string& out, T value) {
  out += as_text(std::as_bytes(std::span<const T, 1>(&value, 1)));
}

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Name, kind, type and shape, in the order of the table; records have the kind in front.
struct Described {
  std::string name, type_and_shape;
  std::uint64_t bytes = 0;
};

Result<Described> describe_record(const PlannedTensor& tensor) {
  Described one;
  const auto type = tensors_type_name(tensor.type);
  const bool fits =
      !type.empty() && tensor.name.size() <= UINT16_MAX && !tensor.name.starts_with('\x1e') &&
      tensor.shape.size() <= UINT8_MAX &&
      std::ranges::all_of(tensor.shape, [](std::uint64_t size) { return size <= UINT32_MAX; });
  if (!fits) {
    return fail(Errc::kInvalidArgument,
                fmt::format("tensor '{}' of {} {} has no place in a .tensors file", tensor.name,
                            layout_of(tensor.type).name, format_shape(tensor.shape)));
  }
  put(one.name, static_cast<std::uint16_t>(tensor.name.size()));
  one.name += tensor.name;
  put(one.type_and_shape, static_cast<std::uint8_t>(type.size()));
  one.type_and_shape += type;
  put(one.type_and_shape, static_cast<std::uint8_t>(tensor.shape.size()));
  for (const std::uint64_t size : tensor.shape) {
    put(one.type_and_shape, static_cast<std::uint32_t>(size));
  }
  IMEX_TRY(one.bytes, tensor_bytes(tensor.type, tensor.shape));
  return one;
}

/// The header of a record with its hash values zero, which is what the hashes cover.
std::string record_header(const PlannedTensor& tensor, const Described& described) {
  std::string header;
  put(header, tensor.module_index);
  put(header, static_cast<std::uint8_t>(tensor.kind));
  header += described.name + described.type_and_shape;
  put(header, static_cast<std::uint16_t>(kHashBlockBytes));
  header += std::string_view("\2\0\4\0\0\0\0\1\40", 9);
  header.append(32, '\0');
  put(header, static_cast<std::int64_t>(described.bytes));
  std::string sized;
  put(sized, std::uint64_t{sizeof(std::uint64_t) + header.size()});
  return sized + header;
}

void fill_hashes(std::string& header, std::span<const std::byte> data) {
  const auto covered = bytes_in(header);
  const std::uint32_t crc = crc32(crc32(0, covered), data);
  const auto sha = sha256_of(covered, data);
  const std::size_t block = header.size() - sizeof(std::int64_t) - kHashBlockBytes;
  header.replace(block + 3, sizeof crc, as_text(std::as_bytes(std::span(&crc, 1))));
  header.replace(block + 9, sha.size(), as_text(sha));
}

/// A new file, written front to back, and on the disk when it is finished.
class OutFile {
 public:
  static Result<OutFile> create(const std::string& path, std::uint64_t bytes) {
    IMEX_TRY(auto fd, os::create_file(path, bytes, 0644));
    return OutFile(std::move(fd), path);
  }
  Result<void> write(std::span<const std::byte> bytes) {
    return os::write_all(fd_.get(), bytes, path_);
  }
  Result<void> finish() { return os::sync_file(fd_.get(), path_); }

 private:
  OutFile(os::UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  os::UniqueFd fd_;
  std::string path_;
};

Result<void> check_names(std::span<const PlannedTensor> plan) {
  std::set<std::string_view> names;
  for (const PlannedTensor& tensor : plan) {
    if (!simdjson::validate_utf8(tensor.name)) {
      return fail(Errc::kInvalidArgument, "the name of a tensor is not UTF-8");
    }
    if (!names.insert(tensor.name).second) {
      return fail(Errc::kInvalidArgument, fmt::format("tensor '{}' appears twice", tensor.name));
    }
  }
  return {};
}

}  // namespace

namespace {

/// Everything in front of the records, and how long the whole file is.
struct TensorsFront {
  std::string bytes;
  std::uint64_t file_bytes = 0, largest = 0;
};

TensorsFront front_of(std::span<const PlannedTensor> plan,
                      const std::vector<Described>& described) {
  std::size_t table_bytes = 0;
  for (const Described& one : described) {
    table_bytes += one.name.size() + 1 + one.type_and_shape.size() + 3 * sizeof(std::uint64_t);
  }
  const std::size_t room = std::max(kTableBytes, table_bytes);
  TensorsFront front;
  std::string table;
  std::uint64_t at = kTensorsFrontBytes + room;
  std::uint64_t data_bytes = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::uint64_t header = record_header(plan[i], described[i]).size();
    table += described[i].name;
    put(table, static_cast<std::uint8_t>(plan[i].kind));
    table += described[i].type_and_shape;
    put(table, at);
    put(table, at + header);
    put(table, described[i].bytes);
    at += header + described[i].bytes;
    data_bytes += described[i].bytes;
    front.largest = std::max(front.largest, described[i].bytes);
  }
  table.resize(room);
  const bool numpy = std::ranges::none_of(plan, [](const PlannedTensor& tensor) {
    return tensors_type_name(tensor.type).find('\0') != std::string_view::npos;
  });
  front.bytes = "|TZR|";
  put(front.bytes, std::uint32_t{numpy ? 1U : 2U});
  front.bytes.append(32, '\0');
  put(front.bytes, data_bytes);
  put(front.bytes, std::uint64_t{0});
  put(front.bytes, std::uint64_t{plan.size()});
  put(front.bytes, std::uint64_t{room});
  front.bytes += table;
  front.file_bytes = at + sizeof(std::uint64_t);  // an empty record ends the list
  return front;
}

}  // namespace

Result<void> write_tensors_file(const std::string& path, std::span<const PlannedTensor> plan,
                                const ProduceTensor& produce) {
  IMEX_CHECK_OK(check_names(plan));
  std::vector<Described> described;
  for (const PlannedTensor& tensor : plan) {
    IMEX_TRY(auto one, describe_record(tensor));
    described.push_back(std::move(one));
  }
  const TensorsFront front = front_of(plan, described);
  IMEX_TRY(auto file, OutFile::create(path, front.file_bytes));
  IMEX_CHECK_OK(file.write(bytes_in(front.bytes)));
  std::vector<std::byte> buffer(front.largest);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto data = std::span(buffer).first(described[i].bytes);
    IMEX_CHECK_OK(produce(i, data));
    std::string header = record_header(plan[i], described[i]);
    fill_hashes(header, data);
    IMEX_CHECK_OK(file.write(bytes_in(header)));
    IMEX_CHECK_OK(file.write(data));
  }
  IMEX_CHECK_OK(file.write(bytes_in(std::string(sizeof(std::uint64_t), '\0'))));
  return file.finish();
}

Result<void> write_safetensors_file(const std::string& path, std::span<const PlannedTensor> plan,
                                    const ProduceTensor& produce) {
  IMEX_CHECK_OK(check_names(plan));
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t at = 0;
  std::uint64_t largest = 0;
  for (const PlannedTensor& tensor : plan) {
    const TypeLayout& layout = layout_of(tensor.type);
    if (layout.block_elements != 1 || tensor.name == "__metadata__") {
      return fail(Errc::kInvalidArgument,
                  fmt::format("tensor '{}' of {} has no place in a safetensors file", tensor.name,
                              layout.name));
    }
    IMEX_TRY(const auto bytes, tensor_bytes(tensor.type, tensor.shape));
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          nlohmann::json(tensor.name).dump(), layout.name,
                          format_shape(tensor.shape), at, at + bytes);
    at += bytes;
    largest = std::max(largest, bytes);
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string front;
  put(front, std::uint64_t{header.size()});

  IMEX_TRY(auto file, OutFile::create(path, front.size() + header.size() + at));
  IMEX_CHECK_OK(file.write(bytes_in(front + header)));
  std::vector<std::byte> buffer(largest);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    IMEX_TRY(const auto bytes, tensor_bytes(plan[i].type, plan[i].shape));
    const auto data = std::span(buffer).first(bytes);
    IMEX_CHECK_OK(produce(i, data));
    IMEX_CHECK_OK(file.write(data));
  }
  return file.finish();
}

}  // namespace imex::inference
