#include "digest.hpp"

#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include "os/memory.hpp"

namespace imex::inference {

Result<std::string> file_sha256(const std::string& path) {
  IMEX_TRY(const auto file, os::map_file(path));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  if (EVP_Digest(file.data(), file.size(), digest.data(), &bytes, EVP_sha256(), nullptr) != 1) {
    return fail(Errc::kInternal, fmt::format("SHA-256 of '{}': OpenSSL cannot compute it", path));
  }
  return fmt::format("{:02x}", fmt::join(digest.data(), digest.data() + bytes, ""));
}

Result<void> check_model_file(const CatalogueModel& model, const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return fail(system_error(error.value(), fmt::format("look at '{}'", path)));
  if (bytes != model.size_bytes) {
    return fail(Errc::kDataLoss, fmt::format("'{}' is not {}: {} bytes wanted, {} found", path,
                                             model.name, model.size_bytes, bytes));
  }
  IMEX_TRY(const std::string found, file_sha256(path));
  if (found == model.sha256) return {};
  return fail(Errc::kDataLoss, fmt::format("'{}' is not {}: SHA-256 {} wanted, {} found", path,
                                           model.name, model.sha256, found));
}

}  // namespace imex::inference
