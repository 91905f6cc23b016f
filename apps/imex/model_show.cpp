#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/units.hpp"
#include "commands.hpp"
#include "inference/catalogue/catalogue.hpp"
#include "inference/model/model_file.hpp"
#include "model_secret.hpp"

namespace imex::cli {
namespace {

using inference::HyperParameters;
using inference::ModelFile;
using inference::Tensor;
using inference::WeightPlace;

/// Weights of one role, type and shape: the layers of a model are alike.
struct Group {
  std::string_view role, type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count = 0, bytes = 0;
};

std::vector<Group> groups_of(const ModelFile& model) {
  std::vector<Group> groups;
  for (const WeightPlace& place : model.places()) {
    const Tensor& tensor = *model.weight(place);
    const std::string_view role = inference::role_name(place.role);
    const std::string_view type = inference::layout_of(tensor.type).name;
    auto group = std::ranges::find_if(groups, [&](const Group& one) {
      return one.role == role && one.type == type && one.shape == tensor.shape;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{role, type, tensor.shape});
    ++group->count;
    group->bytes += tensor.bytes.size();
  }
  return groups;
}

std::uint64_t parameter_count(const ModelFile& model) {
  std::uint64_t count = 0;
  for (const WeightPlace& place : model.places()) {
    std::uint64_t elements = 1;
    for (const std::uint64_t size : model.weight(place)->shape) elements *= size;
    count += elements;
  }
  return count;
}

/// One number if all layers have the same window, else how many have one.
Json window_json(const HyperParameters& p) {
  std::set<std::uint32_t> windows;
  for (const inference::LayerRules& layer : p.layers) windows.insert(layer.window);
  if (windows.size() == 1) return *windows.begin() == 0 ? Json(nullptr) : Json(*windows.begin());
  const auto windowed =
      std::ranges::count_if(p.layers, [](const auto& layer) { return layer.window != 0; });
  return Json{{"tokens", *windows.rbegin()}, {"layers", windowed}};
}

/// A model without a tokenizer can still be shown; the reason stands where the size would.
Json tokenizer_json(const ModelFile& model) {
  const auto tokenizer = model.tokenizer();
  if (!tokenizer) return Json{{"error", tokenizer.error().to_string()}};
  return Json{{"tokens", tokenizer->size()}};
}

Json facts_of(const std::string& path, const ModelFile& model) {
  const HyperParameters& p = model.parameters();
  const auto rotating = std::ranges::count_if(p.layers, &inference::LayerRules::rotates);
  return Json{{"path", path},
              {"name", model.name()},
              {"format", model.format()},
              {"architecture", p.architecture->name},
              {"parameters", parameter_count(model)},
              {"weight_bytes", model.weight_bytes()},
              {"layers", p.layer_count()},
              {"hidden", p.hidden},
              {"feed_forward", p.feed_forward},
              {"query_heads", p.query_heads},
              {"kv_heads", p.kv_heads},
              {"head_size", p.head_size},
              {"vocabulary", p.vocabulary},
              {"context", p.context},
              {"tied_head", p.tied_head},
              {"rope_theta", p.rope_theta},
              {"rope_scaled", !p.rope_factors.empty()},
              {"rope_layers", rotating},
              {"sliding_window", window_json(p)},
              {"norm_epsilon", p.norm_epsilon},
              {"begin_token", p.begin_token ? Json(*p.begin_token) : Json(nullptr)},
              {"stop_tokens", p.stop_tokens},
              {"tokenizer", tokenizer_json(model)},
              {"chat_template", model.chat_template().has_value()}};
}

Json weights_json(const std::vector<Group>& groups) {
  Json rows = Json::array();
  for (const Group& group : groups) {
    rows.push_back({{"role", group.role},
                    {"type", group.type},
                    {"shape", group.shape},
                    {"count", group.count},
                    {"bytes", group.bytes}});
  }
  return rows;
}

std::string cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "none";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string tables(const Json& facts, const std::vector<Group>& groups) {
  Table front({"FACT", "VALUE"});
  for (const auto& [name, value] : facts.items()) {
    std::string shown = name;
    std::ranges::replace(shown, '_', ' ');
    const bool bytes = name == "weight_bytes";
    front.add(
        {bytes ? "weights" : shown, bytes ? format_size(value.get<std::uint64_t>()) : cell(value)});
  }
  Table weights({"WEIGHT", "TYPE", "SHAPE", "COUNT", "BYTES"});
  for (const Group& group : groups) {
    weights.add({std::string(group.role), std::string(group.type),
                 inference::format_shape(group.shape), fmt::format("{}", group.count),
                 fmt::format("{}", group.bytes)});
  }
  return front.render() + "\n" + weights.render();
}

}  // namespace

Result<void> model_show(const Global& global, const ModelShowOptions& options) {
  IMEX_TRY(const auto secret, read_secret(options.secret));
  IMEX_TRY(const std::string path, inference::find_model(options.path));
  IMEX_TRY(const auto model, ModelFile::open(path, secret));
  Json facts = facts_of(path, model);
  if (options.verify) {
    IMEX_CHECK_OK(model.verify());
    facts["verified"] = true;
  }
  // A number of ranks that somebody asked for must be possible; a model whose weights have no
  // kernels can still be shown.
  auto plan = plan_json(model, options.plan);
  if (!plan && plan.error().code == Errc::kInvalidArgument) return fail(std::move(plan).error());
  const std::vector<Group> groups = groups_of(model);
  if (global.format == Format::kTable) {
    return print(tables(facts, groups) + "\n" +
                 (plan ? plan_table(*plan)
                       : fmt::format("This model cannot be run: {}\n", plan.error().to_string())));
  }
  facts["weights"] = weights_json(groups);
  facts["split"] = plan ? *plan : Json{{"error", plan.error().to_string()}};
  return print(facts.dump(global.format == Format::kJson ? 2 : -1, ' ', false,
                          Json::error_handler_t::replace));
}

}  // namespace imex::cli
