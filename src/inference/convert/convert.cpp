#include "inference/convert/convert.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.hpp"
#include "converted_weight.hpp"
#include "inference/format/weights_writer.hpp"
#include "os/file.hpp"

namespace imex::inference {

namespace {

using Writer = Result<void> (*)(const std::string&, std::span<const PlannedTensor>,
                                const ProduceTensor&);

constexpr std::size_t kCompanionBytesMax = std::size_t{256} << 20U;
constexpr std::array<const char*, 6> kCompanions{
    "config.json",           "generation_config.json",  "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

Result<Writer> writer_for(const std::string& target) {
  if (target.ends_with(".tensors")) return write_tensors_file;
  if (target.ends_with(".safetensors")) return write_safetensors_file;
  return fail(Errc::kInvalidArgument, fmt::format("'{}' names no format that is written", target),
              "end its name with .tensors or .safetensors");
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<void> write_text(const std::string& path, std::string_view text) {
  return os::replace_file(path, std::as_bytes(std::span(text)), 0644);
}

/// tokenizer.json, and what of it stands in tokenizer_config.json: which tokens begin and end a
/// text.
Result<void> write_tokenizer(const ModelFile& model, const std::string& folder) {
  IMEX_TRY(const auto tokenizer, model.tokenizer());
  IMEX_TRY(const auto text, write_tokenizer_json(tokenizer));
  IMEX_CHECK_OK(write_text(folder + "/tokenizer.json", text));
  const std::string path = folder + "/tokenizer_config.json";
  return exists(path) ? Result<void>() : write_text(path, make_tokenizer_config(model, tokenizer));
}

/// What stands beside the weights, as far as it is not there yet.
Result<void> write_companions(const ModelFile& model, const std::string& folder,
                              const ConvertOptions& options) {
  for (const char* const name : kCompanions) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const std::string source = fmt::format("{}/{}", options.companions_from, name);
    if (options.companions_from.empty() || exists(path) || !exists(source)) continue;
    IMEX_TRY(const auto text, os::read_file(source, kCompanionBytesMax));
    IMEX_CHECK_OK(write_text(path, text));
  }
  if (const std::string path = folder + "/config.json"; !exists(path)) {
    IMEX_TRY(const auto text, make_config_json(model.parameters()));
    IMEX_CHECK_OK(write_text(path, text));
  }
  if (const std::string path = folder + "/tokenizer.json";
      options.companions_from.empty() && !exists(path)) {
    auto written = write_tokenizer(model, folder);
    if (!written && options.note) {
      options.note(fmt::format("the tokenizer is not converted: {}", written.error().message));
    }
  }
  const std::string chat = folder + "/chat_template.jinja";
  if (!options.companions_from.empty() || !model.chat_template() || exists(chat)) return {};
  return write_text(chat, *model.chat_template());
}

bool same_layers(const HyperParameters& a, const HyperParameters& b) {
  return std::ranges::equal(a.layers, b.layers, [](const LayerRules& x, const LayerRules& y) {
    return x.rotates == y.rotates && x.window == y.window;
  });
}

/// The file that was written, read as anybody would read it, is the model that it was made of.
Result<void> check_written(const ModelFile& model, const std::string& path) {
  IMEX_TRY(const auto written, ModelFile::open(path));
  const HyperParameters& a = model.parameters();
  const HyperParameters& b = written.parameters();
  const bool same = a.architecture == b.architecture && a.query_heads == b.query_heads &&
                    a.kv_heads == b.kv_heads && a.head_size == b.head_size &&
                    a.norm_epsilon == b.norm_epsilon && a.rope_theta == b.rope_theta &&
                    a.rope_factors == b.rope_factors && same_layers(a, b);
  if (same) return {};
  return fail(Errc::kFailedPrecondition,
              fmt::format("'{}/config.json' is of another model", parent_of(path)),
              "remove it, or write to a folder of its own");
}

Result<void> convert(const ModelFile& model, const std::string& target,
                     const ConvertOptions& options) {
  IMEX_TRY(const Writer write, writer_for(target));
  if (exists(target) && !options.replace) {
    return fail(Errc::kAlreadyExists, fmt::format("'{}' is there", target),
                "choose another name, or have it replaced");
  }
  const auto places = model.places();
  std::vector<PlannedTensor> plan;
  for (const WeightPlace& place : places) {
    const Tensor& weight = *model.weight(place);
    IMEX_TRY(const auto type, converted_type(weight, options.type));
    plan.push_back({weight_name(NamingScheme::kHuggingFace, place), type, weight.shape});
  }
  IMEX_CHECK_OK(write_companions(model, parent_of(target), options));
  const auto produce = [&](std::size_t i, std::span<std::byte> out) {
    if (options.progress) options.progress(plan[i].name);
    return convert_weight(*model.weight(places[i]), places[i].role, model.parameters(),
                          plan[i].type, out);
  };
  const std::string temporary = fmt::format("{}.{}", target, "part");
  os::remove_file(temporary);  // of a run that was killed
  auto done = write(temporary, plan, produce);
  if (done) done = check_written(model, temporary);
  if (done) done = os::rename_file(temporary, target);
  if (!done) os::remove_file(temporary);
  return done;
}

}  // namespace

Result<void> convert_model(const ModelFile& model, const std::string& target,
                           const ConvertOptions& options) {
  return within_memory(target, [&] { return convert(model, target, options); });
}

}  // namespace imex::inference
