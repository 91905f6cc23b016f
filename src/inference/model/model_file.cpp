#include "inference/model/model_file.hpp"

#include <fmt/format.h>

#include "base/exhaustion.hpp"
#include "model_opener.hpp"

namespace imex::inference {

Result<ModelFile> ModelFile::open(const std::string& path, const ModelSecret& secret) {
  return within_memory(path, [&] { return ModelOpener().open(path, secret); });
}

const Tensor* ModelFile::weight(const WeightPlace& place) const noexcept {
  const bool tied = place.role == WeightRole::kHead && parameters_.tied_head;
  const auto role = static_cast<std::size_t>(tied ? WeightRole::kEmbedding : place.role);
  const std::size_t begin = role_begin_[role];
  const std::uint32_t count =
      place.role >= WeightRole::kAttentionNorm ? parameters_.layer_count() : 1;
  if (begin == SIZE_MAX || place.layer >= count) return nullptr;
  return &weights_[begin + place.layer];
}

std::uint64_t ModelFile::weight_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Tensor& weight : weights_) bytes += weight.bytes.size();
  return bytes;
}

Result<void> ModelFile::verify() const {
  if (verifier_) return verifier_();
  return fail(Errc::kUnsupported, fmt::format("{} has no hashes of its weights", format_),
              "compare the file with what its source says of it, as sha256sum does");
}

Result<Tokenizer> ModelFile::tokenizer() const {
  IMEX_TRY(auto tokenizer, within_memory("the tokenizer", tokenizer_source_));
  if (tokenizer.size() <= parameters_.vocabulary) return tokenizer;
  return fail(Errc::kDataLoss,
              fmt::format("a tokenizer of {} tokens for a model of {}", tokenizer.size(),
                          parameters_.vocabulary),
              "does it belong to this model?");
}

}  // namespace imex::inference
