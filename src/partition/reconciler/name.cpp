#include "partition/reconciler/name.hpp"

namespace imex::partition::reconciler {

std::string partition_name(std::string_view mark, const Uuid& logical_partition) {
  std::string name(mark);
  name += '.';
  name += logical_partition.to_string();
  return name;
}

std::optional<Uuid> owner_of(std::string_view mark, std::string_view name) {
  if (mark.empty() || name.size() <= mark.size() + 1 || !name.starts_with(mark) ||
      name[mark.size()] != '.') {
    return std::nullopt;
  }
  auto owner = Uuid::parse(name.substr(mark.size() + 1));
  if (!owner || owner->is_nil()) return std::nullopt;
  return *owner;
}

}  // namespace imex::partition::reconciler
