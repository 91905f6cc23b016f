#include "value_source.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "variable_names.hpp"

namespace imex::inference {

namespace {

std::optional<Setting<std::string>> last_of(const NamedValues& values, std::string_view name,
                                            SettingSource source) {
  if (name.empty()) return std::nullopt;
  const auto found = std::find_if(values.rbegin(), values.rend(),
                                  [&](const auto& pair) { return pair.first == name; });
  if (found == values.rend() || found->second.empty()) return std::nullopt;
  return Setting<std::string>{found->second, source, std::string(name)};
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return text;
}

template <class T>
void take(Setting<T>& setting, Setting<std::string>&& found, T value) {
  setting = {std::move(value), found.source, std::move(found.name)};
}

template <class T>
struct ValueWord {
  std::string_view word;
  T value;
};

template <class T, std::size_t kCount>
std::optional<T> meaning_of(const ValueWord<T> (&words)[kCount], const std::string& text) {
  const auto* const found = std::ranges::find(words, lower_case(text), &ValueWord<T>::word);
  if (found == std::end(words)) return std::nullopt;
  return found->value;
}

}  // namespace

std::optional<Setting<std::string>> ValueSource::find(const SettingNames& names) const {
  if (auto found = last_of(input_.options, names.option, SettingSource::kOption)) return found;
  if (auto found = last_of(input_.environment, names.imex, SettingSource::kImex)) return found;
  return last_of(input_.environment, names.nim, SettingSource::kNim);
}

void ValueSource::read(Setting<std::string>& setting, const SettingNames& names) const {
  if (auto found = find(names)) setting = std::move(*found);
}

void ValueSource::read(Setting<std::uint32_t>& setting, const SettingNames& names,
                       std::uint32_t high) {
  auto found = find(names);
  if (!found) return;
  const std::string& text = found->value;
  std::uint32_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec == std::errc{} && end.ptr == text.data() + text.size() && value >= 1 &&
      value <= high) {
    return take(setting, std::move(*found), value);
  }
  refuse(*found, fmt::format("a number from 1 to {}", high));
}

void ValueSource::read(Setting<bool>& setting, const SettingNames& names) {
  static constexpr ValueWord<bool> kWords[] = {{"1", true},   {"true", true}, {"yes", true},
                                               {"on", true},  {"0", false},   {"false", false},
                                               {"no", false}, {"off", false}};
  auto found = find(names);
  if (!found) return;
  if (const auto value = meaning_of(kWords, found->value)) {
    return take(setting, std::move(*found), *value);
  }
  refuse(*found, "1 or 0, true or false");
}

void ValueSource::read(Setting<RunLogLevel>& setting, const SettingNames& names) {
  using Level = RunLogLevel;
  static constexpr ValueWord<Level> kWords[] = {
      {"trace", Level::kTrace},  {"debug", Level::kDebug},      {"info", Level::kInfo},
      {"default", Level::kInfo}, {"warning", Level::kWarning},  {"warn", Level::kWarning},
      {"error", Level::kError},  {"critical", Level::kCritical}};
  auto found = find(names);
  if (!found) return;
  if (const auto value = meaning_of(kWords, found->value)) {
    return take(setting, std::move(*found), *value);
  }
  refuse(*found, "TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL or DEFAULT");
}

void ValueSource::refuse(const Setting<std::string>& found, std::string_view wanted, Errc code) {
  refuse(code, fmt::format("{}: {} wanted, {} found", found.name, wanted, shown(found.value)));
}

void ValueSource::refuse(Errc code, std::string message) {
  if (refused_.code == Errc::kOk) refused_.code = code;
  refused_.message += refused_.message.empty() ? "" : "; ";
  refused_.message += message;
}

Result<void> ValueSource::finish() const {
  if (refused_.code == Errc::kOk) return {};
  return fail(refused_);
}

std::string ValueSource::shown(const std::string& value) const {
  constexpr std::size_t kShownMax = 60;
  constexpr std::size_t kSecretMin = 8;  // shorter ones would hide every number
  for (const auto& [name, secret] : input_.environment) {
    if (is_secret_variable(name) && secret.size() >= kSecretMin &&
        value.find(secret) != std::string::npos) {
      return "***";
    }
  }
  std::string text = value.substr(0, kShownMax);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return fmt::format("'{}'{}", text, value.size() > kShownMax ? "..." : "");
}

}  // namespace imex::inference
