/// How the controller's objects are printed: tables that people read, JSON (snake_case) that
/// programs read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "output.hpp"
#include "partition/client/client.hpp"

namespace imex::cli {

/// Names of logical partitions by id, for people; ids that are not in it are shown as they are.
using PartitionNames = std::map<partition::LogicalPartitionId, std::string>;
[[nodiscard]] PartitionNames names_of(
    const std::vector<partition::client::PartitionView>& partitions);
[[nodiscard]] std::string name_of(const PartitionNames& names,
                                  const partition::LogicalPartitionId& id);

[[nodiscard]] Json to_json(const partition::client::PartitionView& view);
[[nodiscard]] Json to_json(const partition::client::VpcView& view);
[[nodiscard]] Json to_json(const partition::client::InstanceView& view);
[[nodiscard]] Json to_json(const partition::client::InterfaceView& view);
[[nodiscard]] Json to_json(const partition::client::SharingGroup& group);
[[nodiscard]] Json to_json(const partition::client::PlannedOperation& operation);
[[nodiscard]] Json to_json(const std::vector<partition::client::StatusNote>& history);
[[nodiscard]] Json to_json(const std::optional<partition::client::FailureNote>& failure);

/// "0-3 training", "0-1 a, 2 b Pending": the GPUs of an instance by partition.
[[nodiscard]] std::string gpus_text(const std::vector<partition::client::InterfaceView>& interfaces,
                                    const PartitionNames& names);
/// The NVLink domain of an instance's GPUs; "2 domains" if they are in several.
[[nodiscard]] std::string domain_text(
    const std::vector<partition::client::InterfaceView>& interfaces);

/// One object: its fields as lines for people, its JSON for programs.
struct Fields {
  std::vector<std::pair<std::string, std::string>> lines;
  void add(std::string name, std::string value) {
    lines.emplace_back(std::move(name), std::move(value));
  }
  [[nodiscard]] std::string render() const;  ///< "name  value" with the values in one column
};
[[nodiscard]] Result<void> print_object(Format format, const Json& json, const std::string& text);

/// What a dry run found.
[[nodiscard]] Result<void> print_plan(Format format,
                                      const std::vector<partition::client::PlannedOperation>& plan,
                                      const PartitionNames& names);

}  // namespace imex::cli
