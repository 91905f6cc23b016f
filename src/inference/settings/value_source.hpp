/// One value out of options and variables, checked, with where it came from.
#pragma once

#include <concepts>
#include <optional>

#include "inference/settings/run_settings.hpp"

namespace imex::inference {

/// Names of one setting; empty ones do not exist.
struct SettingNames {
  std::string_view option, imex, nim;
};

class ValueSource {
 public:
  explicit ValueSource(const SettingInput& input) : input_(input) {}

  /// The value that wins, unchecked.
  [[nodiscard]] std::optional<Setting<std::string>> find(const SettingNames& names) const;

  void read(Setting<std::string>& setting, const SettingNames& names) const;
  void read(Setting<std::uint32_t>& setting, const SettingNames& names, std::uint32_t high);
  void read(Setting<bool>& setting, const SettingNames& names);
  void read(Setting<RunLogLevel>& setting, const SettingNames& names);

  /// "NIM_MAX_MODEL_LEN: a number from 1 to 8 wanted, 'many' found"
  void refuse(const Setting<std::string>& found, std::string_view wanted,
              Errc code = Errc::kInvalidArgument);
  void refuse(Errc code, std::string message);
  /// All that was refused as one error. Its code is that of the first.
  [[nodiscard]] Result<void> finish() const;

 private:
  /// As it may be shown: short, printable, and no secret.
  [[nodiscard]] std::string shown(const std::string& value) const;

  const SettingInput& input_;
  Error refused_{Errc::kOk, {}};
};

}  // namespace imex::inference
