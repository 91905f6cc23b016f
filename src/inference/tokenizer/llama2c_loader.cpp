// tokenizer.bin of llama2.c: u32 longest token; per token f32 score, i32 length, bytes.
#include <bit>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "assembly.hpp"
#include "base/bytes.hpp"
#include "base/exhaustion.hpp"
#include "byte_alphabet.hpp"
#include "inference/tokenizer/tokenizer.hpp"
#include "tokenizer_parts.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

constexpr std::uint32_t kUnknownId = 0, kBeginId = 1, kEndId = 2;
constexpr std::uint32_t kFirstByteId = 3, kFirstPieceId = kFirstByteId + 256;

Result<Tokenizer> read_pieces(std::span<const std::byte> bytes, std::uint32_t vocabulary) {
  constexpr std::size_t kTokenBytesMin = 8;
  if (vocabulary < kFirstPieceId || vocabulary > bytes.size() / kTokenBytesMin) {
    return fail(Errc::kDataLoss,
                fmt::format("a tokenizer of {} tokens in {} bytes; the first {} are "
                            "special tokens and bytes",
                            vocabulary, bytes.size(), kFirstPieceId));
  }
  ByteReader reader(bytes);
  const auto longest = reader.get<std::uint32_t>();
  TokenizerParts parts;
  parts.vocabulary.resize(vocabulary);
  for (std::uint32_t id = 0; id < vocabulary; ++id) {
    const auto score = std::bit_cast<float>(reader.get<std::uint32_t>());
    const auto length = reader.get<std::uint32_t>();
    const auto view = reader.view(length);
    if (!reader.ok() || length > longest) {
      return fail(Errc::kDataLoss, fmt::format("token {} of {}: {} bytes, longest {}", id,
                                               vocabulary, length, longest));
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
    std::string text(reinterpret_cast<const char*>(view.data()), view.size());
    const auto byte = parse_byte_token(text);
    std::string output = byte ? std::string(1, static_cast<char>(*byte)) : text;
    parts.vocabulary.set(id, std::move(text), std::move(output));
    parts.vocabulary.set_score(id, score);
    if (id <= kEndId) parts.vocabulary.set_special(id);
    if (id > kEndId) parts.vocabulary.index(id);
  }
  if (reader.remaining() != 0) {
    return fail(Errc::kDataLoss,
                fmt::format("{} bytes follow the {} tokens of the tokenizer", reader.remaining(),
                            vocabulary),
                "does it belong to this checkpoint?");
  }
  ScoreBpe model;
  model.unknown = {
      .unknown = kUnknownId, .fuse = false, .bytes = fallback_byte_tokens(parts.vocabulary)};
  if (!model.unknown.bytes) return fail(Errc::kDataLoss, "the tokenizer lacks tokens of bytes");
  parts.model = std::move(model);
  parts.prefix = {.text = " ", .only_at_start = true, .unless_there = false};
  parts.begin = {kBeginId};
  parts.strip_spaces = 1;
  return Tokenizer(std::move(parts));
}

}  // namespace

Result<Tokenizer> read_llama2c_tokenizer(std::span<const std::byte> bytes,
                                         std::uint32_t vocabulary) {
  return within_memory("the tokenizer", [&] { return read_pieces(bytes, vocabulary); });
}

}  // namespace imex::inference
