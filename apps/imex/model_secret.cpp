#include "model_secret.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "os/file.hpp"

namespace imex::cli {
namespace {

constexpr std::size_t kSecretBytesMax = 4096;

std::optional<unsigned> hex_digit(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef0123456789ABCDEF";
  const std::size_t at = kDigits.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(at % 16);
}

std::string without_line_end(std::string text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

/// 32 bytes as they are, or as hexadecimal digits.
Result<inference::TensorsKey> read_key(const std::string& path) {
  IMEX_TRY(std::string text, os::read_file(path, kSecretBytesMax));
  std::array<std::byte, 32> key{};
  if (text.size() == key.size()) {
    std::ranges::transform(text, key.begin(), [](char c) { return static_cast<std::byte>(c); });
    return inference::TensorsKey(key);
  }
  text = without_line_end(std::move(text));
  bool good = text.size() == 2 * key.size();
  for (std::size_t i = 0; good && i < key.size(); ++i) {
    const auto high = hex_digit(text[2 * i]);
    const auto low = hex_digit(text[2 * i + 1]);
    good = high && low;
    if (good) key[i] = static_cast<std::byte>(*high * 16 + *low);
  }
  if (good) return inference::TensorsKey(key);
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is no key", path),
              "a key is 32 bytes, or 64 hexadecimal digits");
}

}  // namespace

Result<inference::ModelSecret> read_secret(const SecretFiles& files) {
  inference::ModelSecret secret;
  if (!files.key_file.empty()) {
    IMEX_TRY(secret.key, read_key(files.key_file));
  }
  if (!files.passphrase_file.empty()) {
    IMEX_TRY(auto text, os::read_file(files.passphrase_file, kSecretBytesMax));
    secret.passphrase = without_line_end(std::move(text));
  }
  return secret;
}

}  // namespace imex::cli
