/// Opens a model of one format after the other; see ModelFile::open.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/model/model_file.hpp"

namespace imex::inference {

class ModelOpener {
 public:
  [[nodiscard]] Result<ModelFile> open(const std::string& path, const ModelSecret& secret);

 private:
  [[nodiscard]] Result<void> open_file(const std::string& path, const ModelSecret& secret);
  [[nodiscard]] Result<void> open_gguf(const std::string& path);
  [[nodiscard]] Result<void> open_llama2c(const std::string& path);
  /// `named`: the one of its weights that was named; empty: whichever the folder means.
  [[nodiscard]] Result<void> open_folder(const std::string& folder, const std::string& named);
  [[nodiscard]] Result<void> open_tensors(const std::string& path, const ModelSecret& secret);
  [[nodiscard]] Result<void> decrypt_weights(const TensorsFile& file, const ModelSecret& secret);
  /// Gives weights that are described as zeros, and not stored, their bytes.
  [[nodiscard]] Result<void> provide_zeros(std::shared_ptr<const TensorsFile> file);
  /// config.json and what lies beside it.
  [[nodiscard]] Result<void> read_folder_facts(const std::string& folder);
  /// Gives each weight its tensor; all are there, in their shape, and nothing is left over.
  [[nodiscard]] Result<void> assign(std::span<const Tensor> tensors, NamingScheme scheme);

  ModelFile model_;
};

/// Text of a chat template from tokenizer_config.json: a string, or the one called "default" of a
/// list. Errors: kDataLoss.
[[nodiscard]] Result<std::optional<std::string>> parse_chat_template(std::string_view json);

}  // namespace imex::inference
