#include "model_opener.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inference/format/gguf.hpp"
#include "inference/format/llama2c.hpp"
#include "inference/format/safetensors.hpp"
#include "os/file.hpp"

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

template <class T>
Result<std::optional<T>> optional_of(const GgufFile& file, std::string_view key,
                                     Result<T> (GgufFile::*get)(std::string_view) const) {
  if (file.find(key) == nullptr) return std::optional<T>();
  IMEX_TRY(auto value, (file.*get)(key));
  return std::optional<T>(std::move(value));
}

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

/// Decrypted weights, one buffer each.
using Buffers = std::vector<std::vector<std::byte>>;

}  // namespace

Result<std::optional<std::string>> parse_chat_template(std::string_view json) {
  using Json = nlohmann::json;
  const Json config = Json::parse(json, nullptr, false);
  if (!config.is_object())
    return fail(Errc::kDataLoss, "tokenizer_config.json is not a JSON object");
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
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  IMEX_CHECK_OK(folder ? open_folder(path) : open_file(path, secret));
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
  if (start.starts_with("GGUF")) return open_gguf(path);
  if (start.starts_with("|TZR|")) return open_tensors(path, secret);
  if (start.size() > 8 && start[8] == '{') return open_folder(folder_of(path));
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
  model_.name_ = std::filesystem::weakly_canonical(folder).filename().string();
  model_.tokenizer_source_ = [folder] { return folder_tokenizer(folder); };
  return {};
}

Result<void> ModelOpener::open_folder(const std::string& folder) {
  IMEX_CHECK_OK(read_folder_facts(folder));
  IMEX_TRY(auto opened, open_safetensors_folder(folder));
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
  IMEX_CHECK_OK(read_folder_facts(folder_of(path)));
  IMEX_TRY(auto opened, TensorsFile::open(path));
  const auto file = std::make_shared<const TensorsFile>(std::move(opened));
  model_.format_ =
      fmt::format("Tensorizer {}{}", file->version(), file->encrypted() ? ", encrypted" : "");
  std::vector<Tensor> tensors;
  for (const TensorsEntry& entry : file->entries()) tensors.push_back(entry.tensor);
  const bool in_place =
      !file->encrypted() && std::ranges::none_of(file->entries(), &TensorsEntry::zeros);
  if (in_place) {
    model_.owner_ = file;
    return assign(tensors, NamingScheme::kHuggingFace);
  }
  std::optional<TensorsKey> derived;
  if (file->encrypted() && !secret.key && secret.passphrase) {
    IMEX_TRY(derived, TensorsKey::from_passphrase(*secret.passphrase, *file));
  }
  const TensorsKey* key = secret.key ? &*secret.key : nullptr;
  if (derived) key = &*derived;
  auto buffers = std::make_shared<Buffers>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorsEntry& entry = file->entries()[i];
    std::vector<std::byte>& buffer = buffers->emplace_back(entry.data_bytes);
    IMEX_CHECK_OK(file->read(entry, file->encrypted() ? key : nullptr, buffer));
    tensors[i].bytes = buffer;
  }
  model_.owner_ = std::move(buffers);
  return assign(tensors, NamingScheme::kHuggingFace);
}

Result<void> ModelOpener::assign(std::span<const Tensor> tensors, NamingScheme scheme) {
  HyperParameters& p = model_.parameters_;
  std::map<std::pair<WeightRole, std::uint32_t>, const Tensor*> found;
  for (const Tensor& tensor : tensors) {
    if (is_ignorable(tensor.name)) continue;
    const auto place = find_weight(scheme, tensor.name, p.layer_count());
    if (!place) {
      return fail(Errc::kUnsupported,
                  fmt::format("tensor '{}' is none of architecture {} with {} layers", tensor.name,
                              p.architecture->name, p.layer_count()));
    }
    found.emplace(std::pair(place->role, place->layer), &tensor);
  }
  // Of a tied pair either one may be in the file.
  const auto embedding = std::pair(WeightRole::kEmbedding, 0U);
  const auto head = std::pair(WeightRole::kHead, 0U);
  if (p.tied_head && !found.contains(embedding) && found.contains(head))
    found[embedding] = found[head];
  if (p.tied_head) found.erase(head);
  model_.role_begin_.assign(kWeightRoles, SIZE_MAX);
  for (const WeightPlace& place : weights_of(p)) {
    const auto weight = found.find({place.role, place.layer});
    if (weight == found.end()) {
      return fail(Errc::kNotFound, fmt::format("the {} ('{}') is missing", describe(place),
                                               weight_name(scheme, place)));
    }
    const Tensor& tensor = *weight->second;
    if (tensor.shape != weight_shape(p, place.role) || !layout_of(tensor.type).weight) {
      return fail(
          Errc::kDataLoss,
          fmt::format("tensor '{}' is {} of {}, not {}", tensor.name, layout_of(tensor.type).name,
                      format_shape(tensor.shape), format_shape(weight_shape(p, place.role))));
    }
    std::size_t& begin = model_.role_begin_[static_cast<std::size_t>(place.role)];
    if (begin == SIZE_MAX) begin = model_.weights_.size();
    model_.weights_.push_back(tensor);
    found.erase(weight);
  }
  if (found.empty()) return {};
  return fail(Errc::kUnsupported,
              fmt::format("tensor '{}' does not belong to this model", found.begin()->second->name),
              "its configuration says that there is none");
}

}  // namespace imex::inference
