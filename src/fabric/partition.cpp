#include <fmt/format.h>

#include "fabric/view.hpp"

namespace imex::fabric {

std::string Partition::to_string() const {
  return fmt::format("{}.{}", domain_uuid.to_string(), clique_id);
}

}  // namespace imex::fabric
