// Static configuration, factory reset, admin state of the trunk cages.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "nmxc_handlers.hpp"

namespace imex::rack::nmxc {

namespace {

std::string file_text(const ConfigFile& file) {
  std::string text;
  for (const auto& [key, value] : file) text += fmt::format("{}={}\n", key, value);
  return text;
}

/// Lines "key=value"; empty lines and comments are passed over. Nothing: a line is neither.
std::optional<ConfigFile> parse_file(std::string_view text) {
  ConfigFile file;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    file.insert_or_assign(std::string(line.substr(0, equals)),
                          std::string(line.substr(equals + 1)));
  }
  return file;
}

/// The switch tray that a transceiver is on; nothing if there is none.
std::optional<unsigned> tray_of(const Domain& domain, const ::nmx_c::TransceiverIdentifier& id) {
  const Topology& shape = domain.shape();
  for (unsigned tray = 0; tray < shape.switch_tray_count(); ++tray) {
    const TrayPlace place = shape.switch_tray(tray);
    if (place.location.slot != id.slot_id()) continue;
    const bool by_serial =
        id.chassis_info_case() == ::nmx_c::TransceiverIdentifier::kChassisSerialNumber;
    if (by_serial ? domain.chassis_serial(place.chassis) == id.chassis_serial_number()
                  : place.location.chassis == id.chassis_id()) {
      return tray;
    }
  }
  return std::nullopt;
}

void fill_cage(const Domain& domain, unsigned tray, unsigned cage,
               ::nmx_c::AdminStateEntry& entry) {
  const TrayPlace place = domain.shape().switch_tray(tray);
  ::nmx_c::TransceiverIdentifier& id = *entry.mutable_transceiver_identifier();
  id.set_chassis_id(place.location.chassis);
  id.set_slot_id(place.location.slot);
  id.set_transceiver_num(cage);
  entry.set_admin_state(static_cast<::nmx_c::AdminState>(domain.cage_state(tray, cage)));
}

ReturnCode set_one(Domain& domain, const ::nmx_c::TransceiverIdentifier& id,
                   ::nmx_c::AdminState state) {
  if (state <= 0 || state > ::nmx_c::ADMIN_STATE_DIAGNOSTIC) return ReturnCode::kBadParam;
  const auto tray = tray_of(domain, id);
  if (!tray) return ReturnCode::kResourceBad;
  return domain.set_cage(*tray, id.transceiver_num(), static_cast<AdminState>(state));
}

}  // namespace

ReturnCode handle(Domain& domain, const ::nmx_c::FactoryResetRequest& /*request*/,
                  ::nmx_c::ReturnCode& /*answer*/, const Moment& moment) {
  return domain.factory_reset(moment.now);
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetStaticConfigRequest& request,
                  ::nmx_c::StaticConfigResponse& answer, const Moment& /*moment*/) {
  const auto& files = domain.config();
  ::nmx_c::StaticConfig read;
  if (request.has_config_keys()) {
    for (const ::nmx_c::ConfigKey& key : request.config_keys().config_key()) {
      const auto file = files.find(key.config_file_name());
      if (file == files.end() || !file->second.contains(key.key())) return ReturnCode::kBadParam;
      ::nmx_c::ConfigKeyVal& pair = *read.mutable_config_key_vals()->add_config_key_val();
      pair.set_config_file_name(key.config_file_name());
      pair.set_key(key.key());
      pair.set_value(file->second.at(key.key()));
    }
  } else if (request.has_config_files()) {
    for (const ::nmx_c::ConfigFile& name : request.config_files().config_file()) {
      const auto file = files.find(name.config_file_name());
      if (file == files.end()) return ReturnCode::kBadParam;
      ::nmx_c::ConfigFileContent& content =
          *read.mutable_config_file_contents()->add_config_file_content();
      content.set_config_file_name(file->first);
      content.set_config_file_content(file_text(file->second));
    }
  } else {
    return ReturnCode::kBadParam;
  }
  *answer.mutable_static_config() = std::move(read);
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::SetStaticConfigRequest& request,
                  ::nmx_c::ReturnCode& /*answer*/, const Moment& /*moment*/) {
  std::map<std::string, ConfigFile> values;
  if (request.static_config().has_config_key_vals()) {
    for (const ::nmx_c::ConfigKeyVal& pair :
         request.static_config().config_key_vals().config_key_val()) {
      values[pair.config_file_name()][pair.key()] = pair.value();
    }
  } else if (request.static_config().has_config_file_contents()) {
    for (const ::nmx_c::ConfigFileContent& file :
         request.static_config().config_file_contents().config_file_content()) {
      const auto parsed = parse_file(file.config_file_content());
      if (!parsed) return ReturnCode::kInvalidConfigFile;
      values[file.config_file_name()] = *parsed;
    }
  } else {
    return ReturnCode::kBadParam;
  }
  return domain.set_config(values);
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetAdminStateRequest& request,
                  ::nmx_c::GetAdminStateResponse& answer, const Moment& /*moment*/) {
  const auto cages = domain.cages_per_tray();
  if (request.has_transceiver_identifier()) {
    const auto tray = tray_of(domain, request.transceiver_identifier());
    const std::uint32_t cage = request.transceiver_identifier().transceiver_num();
    if (!tray || cage == 0 || cage > cages) return ReturnCode::kResourceBad;
    fill_cage(domain, *tray, cage, *answer.add_admin_state_entry());
    return ReturnCode::kSuccess;
  }
  for (unsigned tray = 0; tray < domain.shape().switch_tray_count(); ++tray) {
    for (unsigned cage = 1; cage <= cages; ++cage)
      fill_cage(domain, tray, cage, *answer.add_admin_state_entry());
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetAdminStateRequest& request,
                  ::nmx_c::DraftGetAdminStateResponse& answer, const Moment& moment) {
  if (!request.has_transceiver_identifier())
    return ReturnCode::kBadParam;  // one state fits one cage
  ::nmx_c::GetAdminStateResponse current;
  const ReturnCode code = handle(domain, request, current, moment);
  if (code == ReturnCode::kSuccess)
    answer.set_admin_state(current.admin_state_entry(0).admin_state());
  return code;
}

ReturnCode handle(Domain& domain, const ::nmx_c::SetAdminStateRequest& request,
                  ::nmx_c::SetAdminStateResponse& answer, const Moment& /*moment*/) {
  if (!request.admin_state_entry().has_transceiver_identifier()) return ReturnCode::kBadParam;
  const auto& entry = request.admin_state_entry();
  const ReturnCode code = set_one(domain, entry.transceiver_identifier(), entry.admin_state());
  if (code == ReturnCode::kSuccess) *answer.mutable_admin_state_entry() = entry;
  return code;
}

ReturnCode handle(Domain& domain, const ::nmx_c::DraftSetAdminStateRequest& request,
                  ::nmx_c::DraftSetAdminStateResponse& answer, const Moment& /*moment*/) {
  if (!request.has_transceiver_identifier()) return ReturnCode::kBadParam;
  const ReturnCode code = set_one(domain, request.transceiver_identifier(), request.admin_state());
  if (code == ReturnCode::kSuccess) {
    *answer.mutable_transceiver_identifier() = request.transceiver_identifier();
    answer.set_admin_state(request.admin_state());
  }
  return code;
}

}  // namespace imex::rack::nmxc
