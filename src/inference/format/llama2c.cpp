#include "inference/format/llama2c.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"

namespace imex::inference {

namespace {

constexpr std::uint32_t kSizeMax = 1U << 24U;
constexpr std::uint32_t kLayersMax = 4096;

Result<Llama2cSizes> read_sizes(ByteReader& reader) {
  std::array<std::int32_t, 7> stored{};
  for (std::int32_t& value : stored) value = reader.get<std::int32_t>();
  if (!reader.ok()) return fail(Errc::kDataLoss, "the file ends inside its header");
  const bool tied = stored[5] > 0;
  if (!tied && stored[5] > INT32_MIN) stored[5] = -stored[5];  // the sign is a flag
  for (const std::int32_t value : stored) {
    if (value < 1 || value > std::int32_t{kSizeMax}) {
      return fail(Errc::kDataLoss, "not a llama2.c checkpoint: sizes out of range");
    }
  }
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(stored[i]); };
  const Llama2cSizes sizes{at(0), at(1), at(2), at(3), at(4), at(5), at(6), tied};
  if (sizes.layers > kLayersMax || sizes.hidden % sizes.query_heads != 0 ||
      sizes.query_heads % sizes.kv_heads != 0 || sizes.hidden / sizes.query_heads % 2 != 0) {
    return fail(
        Errc::kDataLoss,
        fmt::format("not a llama2.c checkpoint: {} layers, {} in {} heads, {} key-value heads",
                    sizes.layers, sizes.hidden, sizes.query_heads, sizes.kv_heads));
  }
  return sizes;
}

/// Takes matrices from the front of the data.
class Layout {
 public:
  Layout(ByteReader& reader, std::vector<Tensor>& out) : reader_(reader), out_(out) {}

  void add(std::string name, std::vector<std::uint64_t> shape) {
    std::uint64_t bytes = sizeof(float);  // each size is below 2^24, so three cannot overflow
    for (const std::uint64_t size : shape) bytes *= size;
    const auto view = reader_.view(bytes);
    if (reader_.ok()) out_.push_back({std::move(name), TensorType::kF32, std::move(shape), view});
  }
  /// One for each layer, all together.
  void add_layers(std::uint32_t layers, std::string_view name,
                  const std::vector<std::uint64_t>& shape) {
    for (std::uint32_t i = 0; i < layers && reader_.ok(); ++i) {
      add(fmt::format("layers.{}.{}.weight", i, name), shape);
    }
  }
  void skip(std::uint64_t floats) { static_cast<void>(reader_.view(floats * sizeof(float))); }

 private:
  ByteReader& reader_;
  std::vector<Tensor>& out_;
};

}  // namespace

Result<Llama2cFile> Llama2cFile::open(const std::string& path) {
  IMEX_TRY(auto mapping, os::map_file(path));
  auto file = parse(mapping.bytes());
  if (!file) return fail(std::move(file).error().context(fmt::format("'{}'", path)));
  file->mapping_ = std::move(mapping);
  return file;
}

Result<Llama2cFile> Llama2cFile::parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Llama2cFile file;
  IMEX_TRY(file.sizes_, read_sizes(reader));
  const Llama2cSizes& s = file.sizes_;
  const std::uint64_t head = s.hidden / s.query_heads;
  const std::uint64_t kv = head * s.kv_heads;
  Layout layout(reader, file.tensors_);
  layout.add("tok_embeddings.weight", {s.vocabulary, s.hidden});
  layout.add_layers(s.layers, "attention_norm", {s.hidden});
  layout.add_layers(s.layers, "attention.wq", {s.hidden, s.hidden});
  layout.add_layers(s.layers, "attention.wk", {kv, s.hidden});
  layout.add_layers(s.layers, "attention.wv", {kv, s.hidden});
  layout.add_layers(s.layers, "attention.wo", {s.hidden, s.hidden});
  layout.add_layers(s.layers, "ffn_norm", {s.hidden});
  layout.add_layers(s.layers, "feed_forward.w1", {s.feed_forward, s.hidden});
  layout.add_layers(s.layers, "feed_forward.w2", {s.hidden, s.feed_forward});
  layout.add_layers(s.layers, "feed_forward.w3", {s.feed_forward, s.hidden});
  layout.add("norm.weight", {s.hidden});
  layout.skip(2 * s.context * (head / 2));  // tables of RoPE that nobody reads any more
  if (!s.tied) layout.add("output.weight", {s.vocabulary, s.hidden});
  if (!reader.ok() || reader.remaining() != 0) {
    return fail(
        Errc::kDataLoss,
        fmt::format("a llama2.c checkpoint of {} layers, hidden size {}, vocabulary {} does "
                    "not have {} bytes",
                    s.layers, s.hidden, s.vocabulary, bytes.size()),
        "the file is truncated, or of another version of the format");
  }
  return file;
}

}  // namespace imex::inference
