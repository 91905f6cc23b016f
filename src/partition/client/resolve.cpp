#include "partition/client/resolve.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace imex::partition::client {
namespace {

/// So many names fit into a hint.
constexpr std::size_t kNamesShown = 10;

template <class View>
std::string names_of(const std::vector<View>& all) {
  std::vector<std::string> names;
  for (const View& each : all) {
    if (names.size() == kNamesShown) {
      names.emplace_back("...");
      break;
    }
    names.push_back(printable(each.name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// `kind` in words: "partition". `list` is only called for a name.
template <class View, class List>
auto find_one(std::string_view id_or_name, std::string_view kind, List list)
    -> Result<decltype(View::id)> {
  using IdOf = decltype(View::id);
  if (const auto id = Uuid::parse(id_or_name)) return IdOf{*id};
  IMEX_TRY(const std::vector<View> all, list());
  std::vector<const View*> found;
  for (const View& each : all) {
    if (id_or_name.empty() || each.name == id_or_name) found.push_back(&each);
  }
  if (found.size() == 1) return found.front()->id;
  if (id_or_name.empty()) {
    return fail(Errc::kFailedPrecondition,
                all.empty()
                    ? fmt::format("there is no {}", kind)
                    : fmt::format("there are {} of kind {}: {}", all.size(), kind, names_of(all)),
                all.empty() ? "" : "say which one");
  }
  const std::string name = printable(id_or_name);
  if (found.empty()) {
    return fail(Errc::kNotFound, fmt::format("no {} '{}'", kind, name),
                all.empty() ? fmt::format("there is none of kind {} yet", kind)
                            : fmt::format("there are {}", names_of(all)));
  }
  std::vector<std::string> ids;
  for (const View* each : found) ids.push_back(each->id.to_string());
  return fail(Errc::kFailedPrecondition,
              fmt::format("{} of kind {} are called '{}'", found.size(), kind, name),
              fmt::format("name one by its id: {}", fmt::join(ids, ", ")));
}

}  // namespace

Result<LogicalPartitionId> find_partition(Client& client, std::string_view id_or_name) {
  return find_one<PartitionView>(id_or_name, "partition", [&] { return client.partitions(); });
}
Result<VpcId> find_vpc(Client& client, std::string_view id_or_name) {
  return find_one<VpcView>(id_or_name, "VPC", [&] { return client.vpcs(); });
}
Result<InstanceId> find_instance(Client& client, std::string_view id_or_name) {
  return find_one<InstanceView>(id_or_name, "instance", [&] { return client.instances(); });
}
Result<SiteId> find_site(Client& client, std::string_view id_or_name) {
  return find_one<SiteView>(id_or_name, "site", [&] { return client.sites(); });
}
Result<InstanceTypeId> find_instance_type(Client& client, const SiteId& site,
                                          std::string_view id_or_name) {
  return find_one<InstanceTypeView>(id_or_name, "instance type",
                                    [&] { return client.instance_types(site); });
}

}  // namespace imex::partition::client
