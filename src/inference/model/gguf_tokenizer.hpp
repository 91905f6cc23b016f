/// The tokenizer that a GGUF file carries in its metadata.
#pragma once

#include "inference/format/gguf.hpp"
#include "inference/tokenizer/tokenizer.hpp"

namespace imex::inference {

/// Errors: kNotFound (the file has none), kDataLoss (values of another kind), those of
/// make_gguf_tokenizer().
[[nodiscard]] Result<Tokenizer> gguf_tokenizer(const GgufFile& file);

}  // namespace imex::inference
