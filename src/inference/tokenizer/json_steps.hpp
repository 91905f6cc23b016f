/// The parts of tokenizer.json before and after the model: normalizer, pre-tokenizer, decoder,
/// post-processor. Each reader changes `parts` or refuses what it does not know, by name.
#pragma once

#include "json_view.hpp"
#include "tokenizer_parts.hpp"

namespace imex::inference {

/// How single tokens become text; applied to each token of the vocabulary once.
struct TokenDecoding {
  std::vector<ReplaceText> replacements;
  bool byte_fallback = false;
  bool byte_level = false;
};

/// What the pre-tokenizer says beside how to split.
struct PreTokenizing {
  bool byte_level = false;
};

[[nodiscard]] Result<void> read_normalizer(const JsonView& json, TokenizerParts& parts);
[[nodiscard]] Result<void> read_pre_tokenizer(const JsonView& json, TokenizerParts& parts,
                                              PreTokenizing& facts);
[[nodiscard]] Result<void> read_decoder(const JsonView& json, TokenizerParts& parts,
                                        TokenDecoding& decoding);
/// What the steps of this file may do to text is bounded, so that no text becomes many times what
/// it was. Errors: kUnsupported (growth, or too many steps).
[[nodiscard]] Result<void> check_steps(const TokenizerParts& parts, const TokenDecoding& decoding);
[[nodiscard]] Result<void> read_post_processor(const JsonView& json, TokenizerParts& parts);

}  // namespace imex::inference
