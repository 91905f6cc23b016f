#include "model_opener.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gguf_tokenizer.hpp"
#include "inference/format/gguf.hpp"
#include "inference/format/llama2c.hpp"
#include "inference/format/safetensors.hpp"
#include "json_object.hpp"
#include "os/file.hpp"
#include "weight_table.hpp"

namespace imex::inference {

namespace {

constexpr std::size_t kJsonBytesMax = std::size_t{256} << 20U;

/// An optional text file; none if it is not there.
Result<std::optional<std::string>> read_if_there(const std::string& path) {
  auto text = os::read_file(path, kJsonBytesMax);
  if (text) return std::optional(std::move(*text));
  if (text.error().code == Errc::kNotFound) return std::optional<std::string>();
  return fail(std::move(text).error());
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// llama2.c has no rule for the tokenizer's name; these two are what its programs write.
Result<Tokenizer> llama2c_tokenizer(const std::string& folder, std::uint32_t vocabulary) {
  for (const std::string& name :
       {fmt::format("tok{}.bin", vocabulary), std::string("tokenizer.bin")}) {
    IMEX_TRY(const auto text, read_if_there(fmt::format("{}/{}", folder, name)));
    if (!text) continue;
    auto tokenizer = read_llama2c_tokenizer(std::as_bytes(std::span(*text)), vocabulary);
    if (!tokenizer) return fail(std::move(tokenizer).error().context(fmt::format("'{}'", name)));
    return tokenizer;
  }
  return fail(Errc::kNotFound, fmt::format("no tokenizer in '{}'", folder),
              fmt::format("put tok{}.bin or tokenizer.bin beside the checkpoint", vocabulary));
}

Result<Tokenizer> folder_tokenizer(const std::string& folder) {
  IMEX_TRY(const auto text, read_if_there(folder + "/tokenizer.json"));
  if (!text) {
    return fail(Errc::kNotFound, fmt::format("no tokenizer.json in '{}'", folder),
                "fetch it together with the model");
  }
  return read_tokenizer_json(*text);
}

HyperParameters parameters_of(const Llama2cSizes& sizes) {
  HyperParameters p;
  p.architecture = &architectures().front();  // llama
  p.hidden = sizes.hidden;
  p.feed_forward = sizes.feed_forward;
  p.query_heads = sizes.query_heads;
  p.kv_heads = sizes.kv_heads;
  p.head_size = sizes.hidden / sizes.query_heads;
  p.vocabulary = sizes.vocabulary;
  p.context = sizes.context;
  p.norm_epsilon = 1e-5F;  // constants of llama2.c
  p.rope_theta = 10'000;
  p.rope_pairs = RopePairs::kInterleaved;
  p.tied_head = sizes.tied;
  p.layers.resize(sizes.layers);
  p.begin_token = 1;
  p.stop_tokens = {1, 2};  // a new story begins with 1
  return p;
}

/// What the folder is called, also where it was given as ".".
std::string name_of(const std::string& folder) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(folder, error);
  return (error ? std::filesystem::path(folder) : whole).filename().string();
}

/// Who gives a secret means to be protected: to open a file without it would hide that it is not.
Result<void> refuse_secret(const std::string& path, const ModelSecret& secret) {
  if (!secret.key && !secret.passphrase) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("'{}' is not encrypted, but a key or passphrase is given", path),
              "open it without one, if it is the file that is meant");
}

}  // namespace

Result<std::optional<std::string>> parse_chat_template(std::string_view json) {
  using Json = nlohmann::json;
  IMEX_TRY(const Json config, parse_json_object(json, "tokenizer_config.json"));
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::optional<std::string>();
  if (found->is_string()) return std::optional(found->get<std::string>());
  for (const Json& one : found->is_array() ? *found : Json::array()) {
    const auto name = one.find("name");
    const auto text = one.find("template");
    if (!one.is_object() || name == one.end() || text == one.end()) continue;
    if (*name == "default" && text->is_string()) return std::optional(text->get<std::string>());
  }
  return fail(Errc::kDataLoss, "tokenizer_config.json: 'chat_template' has no default");
}

Result<ModelFile> ModelOpener::open(const std::string& path, const ModelSecret& secret) {
  if (secret.key && secret.passphrase) {
    return fail(Errc::kInvalidArgument, "both a key and a passphrase are given",
                "give one of them");
  }
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  if (folder) IMEX_CHECK_OK(refuse_secret(path, secret));
  IMEX_CHECK_OK(folder ? open_folder(path, {}) : open_file(path, secret));
  return std::move(model_);
}

Result<void> ModelOpener::open_file(const std::string& path, const ModelSecret& secret) {
  std::string front;
  {
    IMEX_TRY(const auto map, os::map_file(path));
    const auto bytes = map.bytes().first(std::min<std::size_t>(map.size(), 16));
    for (const std::byte byte : bytes) front += static_cast<char>(byte);
  }
  const std::string_view start = front;
  if (start.starts_with("|TZR|")) return open_tensors(path, secret);
  IMEX_CHECK_OK(refuse_secret(path, secret));
  if (start.starts_with("GGUF")) return open_gguf(path);
  if (start.size() > 8 && start[8] == '{') return open_folder(folder_of(path), path);
  if (path.ends_with(".bin")) return open_llama2c(path);
  return fail(Errc::kUnsupported, fmt::format("'{}' is in no known format", path),
              "known are GGUF, safetensors, Tensorizer's .tensors and llama2.c's .bin");
}

Result<void> ModelOpener::open_gguf(const std::string& path) {
  IMEX_TRY(auto opened, GgufFile::open(path));
  const auto file = std::make_shared<const GgufFile>(std::move(opened));
  const auto named = [&](Error error) {
    return fail(std::move(error).context(fmt::format("'{}'", path)));
  };
  auto parameters = hyper_parameters_of(*file);
  if (!parameters) return named(std::move(parameters).error());
  model_.parameters_ = std::move(*parameters);
  model_.format_ = "GGUF 3";
  if (const auto name = file->text("general.name")) model_.name_ = *name;
  if (const auto text = file->text("tokenizer.chat_template")) model_.chat_template_ = *text;
  model_.tokenizer_source_ = [file] { return gguf_tokenizer(*file); };
  model_.owner_ = file;
  auto assigned = assign(file->tensors(), NamingScheme::kGguf);
  if (!assigned) return named(std::move(assigned).error());
  return {};
}

Result<void> ModelOpener::open_llama2c(const std::string& path) {
  IMEX_TRY(auto opened, Llama2cFile::open(path));
  const auto file = std::make_shared<const Llama2cFile>(std::move(opened));
  model_.parameters_ = parameters_of(file->sizes());
  IMEX_CHECK_OK(validate(model_.parameters_));
  model_.format_ = "llama2.c";
  model_.tokenizer_source_ = [folder = folder_of(path), vocabulary = file->sizes().vocabulary] {
    return llama2c_tokenizer(folder, vocabulary);
  };
  model_.owner_ = file;
  return assign(file->tensors(), NamingScheme::kMeta);
}

Result<void> ModelOpener::read_folder_facts(const std::string& folder) {
  IMEX_TRY(const auto config, read_if_there(folder + "/config.json"));
  if (!config) {
    return fail(Errc::kNotFound, fmt::format("no config.json in '{}'", folder),
                "weights alone do not say what they are; put the model's config.json beside them");
  }
  IMEX_TRY(model_.parameters_, parse_config_json(*config));
  IMEX_TRY(const auto generation, read_if_there(folder + "/generation_config.json"));
  if (generation) IMEX_CHECK_OK(apply_generation_config(*generation, model_.parameters_));
  IMEX_TRY(model_.chat_template_, read_if_there(folder + "/chat_template.jinja"));
  IMEX_TRY(const auto tokenizer_config, read_if_there(folder + "/tokenizer_config.json"));
  if (tokenizer_config && !model_.chat_template_) {
    IMEX_TRY(model_.chat_template_, parse_chat_template(*tokenizer_config));
  }
  model_.name_ = name_of(folder);
  model_.tokenizer_source_ = [folder] { return folder_tokenizer(folder); };
  return {};
}

Result<void> ModelOpener::open_folder(const std::string& folder, const std::string& named) {
  IMEX_CHECK_OK(read_folder_facts(folder));
  IMEX_TRY(auto opened,
           named.empty() ? open_safetensors_folder(folder) : open_safetensors_file(named));
  const auto files = std::make_shared<const std::vector<SafetensorsFile>>(std::move(opened));
  model_.format_ =
      files->size() == 1 ? "safetensors" : fmt::format("safetensors, {} shards", files->size());
  std::vector<Tensor> tensors;
  for (const SafetensorsFile& file : *files) {
    tensors.insert(tensors.end(), file.tensors().begin(), file.tensors().end());
  }
  model_.owner_ = files;
  return assign(tensors, NamingScheme::kHuggingFace);
}

Result<void> ModelOpener::open_tensors(const std::string& path, const ModelSecret& secret) {
  IMEX_TRY(auto opened, TensorsFile::open(path));
  const auto file = std::make_shared<const TensorsFile>(std::move(opened));
  if (!file->encrypted()) IMEX_CHECK_OK(refuse_secret(path, secret));
  if (file->encrypted() && !secret.key && !secret.passphrase) {
    return fail(Errc::kFailedPrecondition, fmt::format("'{}': the file is encrypted", path),
                "give its key or passphrase");
  }
  IMEX_CHECK_OK(read_folder_facts(folder_of(path)));
  model_.format_ =
      fmt::format("Tensorizer {}{}", file->version(), file->encrypted() ? ", encrypted" : "");
  std::vector<Tensor> tensors;
  for (const TensorsEntry& entry : file->entries()) tensors.push_back(entry.tensor);
  IMEX_CHECK_OK(assign(tensors, NamingScheme::kHuggingFace));
  model_.owner_ = file;
  if (file->encrypted()) {
    model_.verifier_ = []() -> Result<void> { return {}; };  // done with each read below
    return decrypt_weights(*file, secret);
  }
  model_.verifier_ = [file]() -> Result<void> {
    for (const TensorsEntry& entry : file->entries()) IMEX_CHECK_OK(file->verify(entry));
    return {};
  };
  return provide_zeros(file);
}

Result<void> ModelOpener::decrypt_weights(const TensorsFile& file, const ModelSecret& secret) {
  std::optional<TensorsKey> derived;
  if (secret.passphrase) {
    IMEX_TRY(derived, TensorsKey::from_passphrase(*secret.passphrase, file));
  }
  const TensorsKey* key = secret.key ? &*secret.key : nullptr;
  if (derived) key = &*derived;
  std::map<std::string_view, const TensorsEntry*> entries;
  for (const TensorsEntry& entry : file.entries()) entries.emplace(entry.tensor.name, &entry);
  // Shapes are those of the model by now, and what is encrypted is as large as it is in the file.
  auto buffers = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (Tensor& weight : model_.weights_) {
    const TensorsEntry& entry = *entries.at(weight.name);
    if (entry.zeros) {
      return fail(Errc::kUnsupported,
                  fmt::format("tensor '{}' of an encrypted file has no data", weight.name),
                  "nothing vouches for it");
    }
    std::vector<std::byte>& buffer = buffers->emplace_back(entry.data_bytes);
    IMEX_CHECK_OK(file.read(entry, key, buffer));
    weight.bytes = buffer;
  }
  model_.owner_ = std::move(buffers);
  return {};
}

Result<void> ModelOpener::provide_zeros(std::shared_ptr<const TensorsFile> file) {
  std::uint64_t bytes = 0;
  for (const Tensor& weight : model_.weights_) {
    IMEX_TRY(const auto size, tensor_bytes(weight.type, weight.shape));
    if (weight.bytes.empty()) bytes = std::max(bytes, size);
  }
  if (bytes == 0) return {};
  // One table for all, from calloc: until somebody writes, which nobody does, its pages are the
  // kernel's page of zeros, and a file of a few bytes takes addresses, not memory.
  struct Zeros {
    std::shared_ptr<const TensorsFile> file;
    std::unique_ptr<std::byte, decltype(&std::free)> bytes;
  };
  const auto zeros = std::make_shared<Zeros>(
      Zeros{std::move(file), {static_cast<std::byte*>(std::calloc(bytes, 1)), &std::free}});
  if (!zeros->bytes) return fail(Errc::kResourceExhausted, fmt::format("{} bytes of zeros", bytes));
  for (Tensor& weight : model_.weights_) {
    if (weight.bytes.empty()) {
      IMEX_TRY(const auto size, tensor_bytes(weight.type, weight.shape));
      weight.bytes = {zeros->bytes.get(), static_cast<std::size_t>(size)};
    }
  }
  model_.owner_ = zeros;
  return {};
}

Result<void> ModelOpener::assign(std::span<const Tensor> tensors, NamingScheme scheme) {
  IMEX_TRY(auto table, assign_weights(tensors, scheme, model_.parameters_));
  model_.weights_ = std::move(table.weights);
  model_.role_begin_ = std::move(table.role_begin);
  return {};
}

}  // namespace imex::inference
