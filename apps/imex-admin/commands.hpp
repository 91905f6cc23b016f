/// The commands, one function each: ask the controller, and say what came of it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "client.hpp"
#include "render.hpp"

namespace imex::admin {

/// What every command has.
struct Session {
  Client& client;
  int page_size = 100;  ///< ids per look-up
  /// One line about what is going on, for standard error.
  std::function<void(const std::string&)> progress{};
};

struct CredentialOptions {
  std::string user{}, password{};
  std::string password_file{};  ///< "-": standard input
};
[[nodiscard]] Result<Output> add_nmxm_credential(const Session& session,
                                                 const CredentialOptions& options);
[[nodiscard]] Result<Output> delete_nmxm_credential(const Session& session,
                                                    const std::string& user);

struct EndpointOptions {
  std::string chassis_serial{}, endpoint{};
};
[[nodiscard]] Result<Output> show_endpoints(const Session& session,
                                            const std::string& chassis_serial);
[[nodiscard]] Result<Output> create_endpoint(const Session& session,
                                             const EndpointOptions& options);
[[nodiscard]] Result<Output> update_endpoint(const Session& session,
                                             const EndpointOptions& options);
[[nodiscard]] Result<Output> delete_endpoint(const Session& session,
                                             const std::string& chassis_serial);

struct ShowOptions {
  std::string id{}, name{}, tenant_org{};
};
[[nodiscard]] Result<Output> show_logical_partitions(const Session& session,
                                                     const ShowOptions& options);
[[nodiscard]] Result<Output> create_logical_partition(const Session& session,
                                                      const std::string& name,
                                                      const std::string& tenant_org);
[[nodiscard]] Result<Output> delete_logical_partition(const Session& session,
                                                      const std::string& id);
[[nodiscard]] Result<Output> show_nvl_partitions(const Session& session,
                                                 const ShowOptions& options);

struct PopulateOptions {
  std::string machine{};
  std::string chassis_serial{};  ///< empty: what is known of the machine
  std::optional<std::uint32_t> tray_index{};
  bool update_db = false;
};
[[nodiscard]] Result<Output> show_nvlink_info(const Session& session, const std::string& machine);
[[nodiscard]] Result<Output> populate_nvlink_info(const Session& session,
                                                  const PopulateOptions& options);
[[nodiscard]] Result<Output> force_delete_machine(const Session& session,
                                                  const std::string& machine, bool despite_type);

[[nodiscard]] Result<Output> show_instance(const Session& session, const std::string& id);
/// `config`: JSON {"gpu_configs": [{"device_instance": 0, "logical_partition_id": "..."}]}.
[[nodiscard]] Result<Output> update_instance_nvlink(const Session& session, const std::string& id,
                                                    const std::string& config);

[[nodiscard]] Result<Output> show_version(const Session& session);

// ---- Pure parts, for the tests

/// Errors: kInvalidArgument.
[[nodiscard]] Result<pb::InstanceNVLinkConfig> parse_nvlink_config(const std::string& text);
/// The GPUs of one tray out of a GetGpuInfoList in JSON. Errors: kDataLoss (not such an answer),
/// kNotFound (no GPU there).
[[nodiscard]] Result<pb::MachineNVLinkInfo> nvlink_info_of(const std::string& gpu_list,
                                                           const std::string& chassis_serial,
                                                           std::uint32_t tray_index);

}  // namespace imex::admin
