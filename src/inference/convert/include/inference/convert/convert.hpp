/// A model in another format: its weights under the names of Hugging Face, what it needs beside
/// them.
///
///     IMEX_TRY(const auto model, ModelFile::open("model.gguf"));
///     IMEX_CHECK_OK(convert_model(model, "out/model.tensors", {.type = TensorType::kBf16}));
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "inference/model/model_file.hpp"

namespace imex::inference {

struct ConvertOptions {
  /// Of all weights: F32, F16 or BF16, to the nearest. None: each as it is, which quantised ones
  /// cannot be.
  std::optional<TensorType> type = std::nullopt;
  bool replace = false;  ///< what `target` is now
  /// A folder in Hugging Face layout that the model is from: its configuration, tokenizer and
  /// template are copied. Empty: they are written anew.
  std::string companions_from = {};
  std::function<void(std::string_view tensor)> progress = {};  ///< before each weight
  std::function<void(std::string_view text)> note = {};        ///< what could not be converted
};

/// Writes `target`, whose name ends with ".tensors" (as Tensorizer writes it, unencrypted) or
/// ".safetensors", and beside it what a reader needs, where it is not there yet. The new file is
/// opened and compared with `model` before it takes its name, by one rename: after an error,
/// `target` is what it was. Rows of queries and keys come out in the order of Hugging Face. Errors:
/// kAlreadyExists, kInvalidArgument (another ending; quantised weights and no type; a type that
/// weights cannot have), kDataLoss (a weight beyond the range of the type), kFailedPrecondition
/// (the config.json that is there is of another model), kUnsupported (config.json cannot say what
/// this model is), kResourceExhausted (disk).
[[nodiscard]] Result<void> convert_model(const ModelFile& model, const std::string& target,
                                         const ConvertOptions& options = {});

/// config.json for a model whose rows are in the order of Hugging Face. Errors: kUnsupported
/// (divisors of RoPE that no kind of scaling explains).
[[nodiscard]] Result<std::string> make_config_json(const HyperParameters& parameters);

/// tokenizer_config.json, for a tokenizer.json of write_tokenizer_json().
[[nodiscard]] std::string make_tokenizer_config(const ModelFile& model, const Tokenizer& tokenizer);

}  // namespace imex::inference
