/// A model on disk, whatever its format: one view of architecture, weights, tokenizer and template.
///
///     IMEX_TRY(const auto model, ModelFile::open("model.gguf"));
///     const Tensor* wq = model.weight({WeightRole::kQuery, 3});
///     IMEX_TRY(const auto tokenizer, model.tokenizer());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/format/tensor.hpp"
#include "inference/format/tensors.hpp"
#include "inference/model/hyper_parameters.hpp"
#include "inference/model/weight_role.hpp"
#include "inference/tokenizer/tokenizer.hpp"

namespace imex::inference {

/// For encrypted files: one of the two.
struct ModelSecret {
  std::optional<TensorsKey> key;
  std::optional<std::string> passphrase;
};

/// Immutable after opening, so threads may share it. Weights lie in the mapped file, which must not
/// be truncated while it is open, except those of encrypted files, which are decrypted into memory
/// when it is opened, and those that a `.tensors` file only describes, which are zeros.
class ModelFile {
 public:
  /// `path`: a `.gguf`, `.tensors` (config.json beside it), `.safetensors` or llama2.c `.bin` file,
  /// or a folder in Hugging Face layout; told apart by content. Every weight that the architecture
  /// needs is there in its shape, once, before any data is read: only that of encrypted files is,
  /// all of it, and its hashes are checked where it has any. Of a `.safetensors` file exactly that
  /// one, or the shards of the index that names it. Errors: kNotFound (a file, a weight),
  /// kUnsupported (format, architecture, a tensor that it does not have: by name), kDataLoss,
  /// kFailedPrecondition (encrypted, and no secret), kInvalidArgument (a secret for what is not
  /// encrypted), kPermissionDenied (the wrong one), kResourceExhausted (memory).
  [[nodiscard]] static Result<ModelFile> open(const std::string& path,
                                              const ModelSecret& secret = {});

  [[nodiscard]] const HyperParameters& parameters() const noexcept { return parameters_; }
  [[nodiscard]] std::string_view format() const noexcept { return format_; }
  /// What the file calls itself; empty where it does not say.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Compares all weights with the hashes of their file, at the cost of reading it; of encrypted
  /// files that was done when they were opened. Errors:
  /// kDataLoss (one differs), kFailedPrecondition (a tensor without any), kUnsupported (a format
  /// without any).
  [[nodiscard]] Result<void> verify() const;

  /// The weight of a role; nullptr if this model has none. A tied head is the embedding.
  [[nodiscard]] const Tensor* weight(const WeightPlace& place) const noexcept;
  /// Bytes of all weights, each counted once.
  [[nodiscard]] std::uint64_t weight_bytes() const noexcept;
  /// All weights in the order of their roles, layer by layer; a tied head once.
  [[nodiscard]] std::vector<WeightPlace> places() const { return weights_of(parameters_); }

  /// Builds it anew with each call: 20 ms for 50,000 tokens. It may know fewer tokens than the
  /// model (whose vocabulary may be padded), never more. Errors: kNotFound (no tokenizer with the
  /// model), kDataLoss (another model's), those of the loaders.
  [[nodiscard]] Result<Tokenizer> tokenizer() const;
  /// Jinja text; none if the model has none.
  [[nodiscard]] const std::optional<std::string>& chat_template() const noexcept {
    return chat_template_;
  }

 private:
  friend class ModelOpener;
  using TokenizerSource = std::function<Result<Tokenizer>()>;

  HyperParameters parameters_;
  std::string format_, name_;
  std::vector<Tensor> weights_;             // in the order of places()
  std::vector<std::size_t> role_begin_;     // per role: its first weight; SIZE_MAX: none
  std::shared_ptr<const void> owner_;       // keeps the mapping; copies of the view share it
  std::function<Result<void>()> verifier_;  // none: the format has no hashes
  TokenizerSource tokenizer_source_;
  std::optional<std::string> chat_template_;
};

}  // namespace imex::inference
