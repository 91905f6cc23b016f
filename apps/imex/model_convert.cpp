#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "commands.hpp"
#include "inference/convert/convert.hpp"
#include "model_secret.hpp"

namespace imex::cli {
namespace {

using inference::ModelFile;
using inference::TensorType;

std::optional<TensorType> parse_dtype(const std::string& name) {
  if (name == "f32") return TensorType::kF32;
  if (name == "f16") return TensorType::kF16;
  if (name == "bf16") return TensorType::kBf16;
  return std::nullopt;  // "keep": the parser knows no other
}

/// Where configuration and tokenizer of the source lie; empty: they are in the file, or nowhere.
std::string companions_of(const std::string& source, const ModelFile& model) {
  const bool beside =
      model.format().starts_with("safetensors") || model.format().starts_with("Tensorizer");
  if (!beside) return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) return source;
  const std::string parent = std::filesystem::path(source).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

Result<void> model_convert(const Global& global, const ModelConvertOptions& options) {
  IMEX_TRY(const auto secret, read_secret(options.secret));
  IMEX_TRY(const auto model, ModelFile::open(options.source, secret));
  Progress progress(model.places().size(), global.quiet);
  std::string note;  // shown when no bar is in its way
  const inference::ConvertOptions how{
      .type = parse_dtype(options.dtype),
      .replace = options.force,
      .companions_from = companions_of(options.source, model),
      .progress = [&](std::string_view tensor) { progress.step(printable(tensor)); },
      .note = [&](std::string_view text) { note = text; }};
  auto done = inference::convert_model(model, options.target, how);
  if (!done && done.error().code == Errc::kAlreadyExists) {
    done.error().hint = "choose another name, or replace it with --force";
  }
  IMEX_CHECK_OK(done);
  if (!note.empty() && !global.quiet) {
    fmt::print(stderr, "imex: {}; put the model's tokenizer.json beside it\n", printable(note));
  }
  std::error_code ignored;
  const std::uint64_t bytes = std::filesystem::file_size(options.target, ignored);
  if (global.format == Format::kTable) {
    return print(fmt::format("{}: {}", printable(options.target), format_size(bytes)));
  }
  return print(
      Json{{"path", options.target}, {"bytes", bytes}, {"weights", model.places().size()}}.dump(
          -1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace imex::cli
