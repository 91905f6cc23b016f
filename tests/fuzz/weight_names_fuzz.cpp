// Lines as names of tensors in every scheme: a name that is found is the name of what was found, so
// no two names are of one weight.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "inference/model/weight_role.hpp"
#include "weight_table.hpp"

namespace {

using namespace imex::inference;

constexpr std::uint32_t kLayers = 12;

void check_name(NamingScheme scheme, std::string_view name) {
  static_cast<void>(is_ignorable(name));
  const auto place = find_weight(scheme, name, kLayers);
  if (!place) return;
  IMEX_ASSERT(place->layer < kLayers, "a layer of the model");
  IMEX_ASSERT(weight_name(scheme, *place) == name, "one name for each weight");
}

/// Each line is a tensor of no size; never does that make a whole model.
void assign(NamingScheme scheme, std::string_view text) {
  HyperParameters p;
  p.architecture = &architectures().front();
  p.layers.resize(kLayers);
  std::vector<Tensor> tensors;
  for (std::size_t at = 0; at < text.size() && tensors.size() < 4096;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view name = text.substr(at, end - at);
    check_name(scheme, name);
    tensors.emplace_back().name = name;
    at = end + 1;
  }
  IMEX_ASSERT(!assign_weights(tensors, scheme, p), "no model has such shapes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const NamingScheme scheme :
       {NamingScheme::kGguf, NamingScheme::kHuggingFace, NamingScheme::kMeta}) {
    assign(scheme, text);
  }
  return 0;
}
