#include "weight_table.hpp"

#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace imex::inference {

namespace {

using Place = std::pair<WeightRole, std::uint32_t>;
using Found = std::map<Place, const Tensor*>;

Result<Found> find_all(std::span<const Tensor> tensors, NamingScheme scheme,
                       const HyperParameters& p) {
  Found found;
  for (const Tensor& tensor : tensors) {
    if (is_ignorable(tensor.name)) continue;
    const auto place = find_weight(scheme, tensor.name, p.layer_count());
    if (!place) {
      return fail(Errc::kUnsupported,
                  fmt::format("tensor '{}' is none of architecture {} with {} layers", tensor.name,
                              p.architecture->name, p.layer_count()));
    }
    const auto [same, fresh] = found.emplace(Place(place->role, place->layer), &tensor);
    if (fresh) continue;
    return fail(Errc::kDataLoss, fmt::format("tensors '{}' and '{}' are both the {}",
                                             same->second->name, tensor.name, describe(*place)));
  }
  return found;
}

Result<void> check_form(const Tensor& tensor, WeightRole role, const HyperParameters& p) {
  const auto wanted = weight_shape(p, role);
  if (tensor.shape == wanted && layout_of(tensor.type).weight) return {};
  return fail(Errc::kDataLoss, fmt::format("tensor '{}' is {} of {}, not {}", tensor.name,
                                           layout_of(tensor.type).name, format_shape(tensor.shape),
                                           format_shape(wanted)));
}

}  // namespace

Result<WeightTable> assign_weights(std::span<const Tensor> tensors, NamingScheme scheme,
                                   const HyperParameters& p) {
  IMEX_TRY(auto found, find_all(tensors, scheme, p));
  if (const auto head = found.find({WeightRole::kHead, 0}); p.tied_head && head != found.end()) {
    IMEX_CHECK_OK(check_form(*head->second, WeightRole::kHead, p));
    found.emplace(Place(WeightRole::kEmbedding, 0), head->second);  // unless it is there itself
    found.erase(head);
  }
  WeightTable table;
  table.role_begin.assign(kWeightRoles, SIZE_MAX);
  for (const WeightPlace& place : weights_of(p)) {
    const auto weight = found.find({place.role, place.layer});
    if (weight == found.end()) {
      return fail(Errc::kNotFound, fmt::format("the {} ('{}') is missing", describe(place),
                                               weight_name(scheme, place)));
    }
    IMEX_CHECK_OK(check_form(*weight->second, place.role, p));
    std::size_t& begin = table.role_begin[static_cast<std::size_t>(place.role)];
    if (begin == SIZE_MAX) begin = table.weights.size();
    table.weights.push_back(*weight->second);
    found.erase(weight);
  }
  if (found.empty()) return table;
  return fail(Errc::kUnsupported,
              fmt::format("tensor '{}' does not belong to this model", found.begin()->second->name),
              "its configuration says that there is none");
}

}  // namespace imex::inference
