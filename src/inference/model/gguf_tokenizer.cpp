#include "gguf_tokenizer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace imex::inference {

namespace {

template <class T>
Result<std::optional<T>> optional_of(const GgufFile& file, std::string_view key,
                                     Result<T> (GgufFile::*get)(std::string_view) const) {
  if (file.find(key) == nullptr) return std::optional<T>();
  IMEX_TRY(auto value, (file.*get)(key));
  return std::optional<T>(std::move(value));
}

}  // namespace

Result<Tokenizer> gguf_tokenizer(const GgufFile& file) {
  const auto id = [&](std::string_view name) -> Result<std::optional<std::uint32_t>> {
    IMEX_TRY(const auto value, optional_of(file, fmt::format("tokenizer.ggml.{}_token_id", name),
                                           &GgufFile::integer));
    if (!value) return std::optional<std::uint32_t>();
    return std::optional(static_cast<std::uint32_t>(std::min<std::uint64_t>(*value, UINT32_MAX)));
  };
  GgufVocabulary in;
  IMEX_TRY(in.model, file.text("tokenizer.ggml.model"));
  IMEX_TRY(const auto pre, optional_of(file, "tokenizer.ggml.pre", &GgufFile::text));
  in.pre = pre.value_or("gpt-2");
  IMEX_TRY(in.tokens, file.texts("tokenizer.ggml.tokens"));
  IMEX_TRY(auto scores, optional_of(file, "tokenizer.ggml.scores", &GgufFile::floats));
  in.scores = std::move(scores).value_or(std::vector<float>());
  IMEX_TRY(auto types, optional_of(file, "tokenizer.ggml.token_type", &GgufFile::integers));
  in.types = std::move(types).value_or(std::vector<std::int32_t>());
  IMEX_TRY(auto merges, optional_of(file, "tokenizer.ggml.merges", &GgufFile::texts));
  in.merges = std::move(merges).value_or(std::vector<std::string_view>());
  IMEX_TRY(in.begin, id("bos"));
  IMEX_TRY(in.end, id("eos"));
  IMEX_TRY(in.unknown, id("unknown"));
  IMEX_TRY(in.add_begin, optional_of(file, "tokenizer.ggml.add_bos_token", &GgufFile::flag));
  IMEX_TRY(in.add_end, optional_of(file, "tokenizer.ggml.add_eos_token", &GgufFile::flag));
  IMEX_TRY(in.add_space_prefix,
           optional_of(file, "tokenizer.ggml.add_space_prefix", &GgufFile::flag));
  return make_gguf_tokenizer(in);
}

}  // namespace imex::inference
