/// Text to token ids and back, exactly as the model was trained: byte-level BPE, SentencePiece (BPE
/// and Unigram) and llama2.c's, read from tokenizer.json, GGUF metadata or tokenizer.bin.
///
///     IMEX_TRY(const auto tokenizer, read_tokenizer_json(text));
///     IMEX_TRY(const auto ids, tokenizer.encode("Once upon a time"));
///     Detokenizer stream(tokenizer);
///     for (const std::uint32_t id : ids) out << *stream.append(id);
///     out << stream.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace imex::inference {

struct TokenizerParts;  // tokenizer_parts.hpp

struct EncodeOptions {
  /// Put the model's begin (and end) tokens around the text, as it was trained.
  bool add_special = true;
  /// Read special tokens that are spelled out in the text ("<|im_end|>") as such. Only for text of
  /// our own: in text of a user it is prompt injection.
  bool parse_special = false;
};

/// Immutable, so threads may share one. Copies share their tables.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  /// O(n log n) in the length of the text. Errors: kInvalidArgument (invalid UTF-8, with its
  /// offset; more than 256 MiB).
  [[nodiscard]] Result<std::vector<std::uint32_t>> encode(std::string_view text,
                                                          const EncodeOptions& options = {}) const;

  /// All of it at once; as Detokenizer. Errors: kInvalidArgument (an id that is no token).
  [[nodiscard]] Result<std::string> decode(std::span<const std::uint32_t> ids,
                                           bool skip_special = true) const;

  [[nodiscard]] std::uint32_t size() const noexcept;  ///< ids are below it
  [[nodiscard]] bool is_special(std::uint32_t id) const noexcept;
  /// The id of a special or otherwise added token, by its exact text.
  [[nodiscard]] std::optional<std::uint32_t> find_added(std::string_view text) const;
  /// What the token stands for: bytes, not always whole characters. Views live as long as a copy.
  [[nodiscard]] std::string_view bytes_of(std::uint32_t id) const noexcept;
  [[nodiscard]] const TokenizerParts& parts() const noexcept { return *parts_; }

 private:
  std::shared_ptr<const TokenizerParts> parts_;  // shared by copies and by detokenizers
};

/// Text as it becomes known, token by token: gives only whole characters, keeps the bytes of one
/// that is not complete, and puts U+FFFD for bytes that can become none. One thread at a time.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true);

  /// The text that `id` completes; often empty. Errors: kInvalidArgument (no such token).
  [[nodiscard]] Result<std::string> append(std::uint32_t id);
  /// What is left at the end: U+FFFD for an incomplete character.
  [[nodiscard]] std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;        // at most three bytes: the start of a character
  std::size_t strip_pending_;  // leading spaces still to be dropped
};

/// tokenizer.json of Hugging Face. Errors: kUnsupported (a normalizer, pre-tokenizer, model,
/// pattern or decoder that is not known, by name), kDataLoss.
[[nodiscard]] Result<Tokenizer> read_tokenizer_json(std::string_view text);

/// The same tokenizer as a tokenizer.json that Hugging Face's library reads, too. SentencePiece's
/// scores become a list of merges, as its own converter makes one. Errors: kUnsupported (what that
/// file cannot say: Unigram, two tokens of one text).
[[nodiscard]] Result<std::string> write_tokenizer_json(const Tokenizer& tokenizer);

/// What GGUF metadata holds of a tokenizer; keys `tokenizer.ggml.*` without the prefix.
struct GgufVocabulary {
  std::string_view model;  ///< "llama" (SentencePiece BPE) or "gpt2" (byte-level BPE)
  std::string_view pre;    ///< which splitting, for "gpt2"
  std::vector<std::string_view> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;  ///< 1 normal, 2 unknown, 3 control, 4 user, 5 unused, 6 byte
  std::vector<std::string_view> merges;
  std::optional<std::uint32_t> begin, end, unknown;
  std::optional<bool> add_begin, add_end, add_space_prefix;
};
/// Errors: kUnsupported (model or splitting, by name), kDataLoss.
[[nodiscard]] Result<Tokenizer> make_gguf_tokenizer(const GgufVocabulary& vocabulary);

/// tokenizer.bin of llama2.c, for `vocabulary` tokens (the checkpoint knows how many). Errors:
/// kDataLoss.
[[nodiscard]] Result<Tokenizer> read_llama2c_tokenizer(std::span<const std::byte> bytes,
                                                       std::uint32_t vocabulary);

}  // namespace imex::inference
