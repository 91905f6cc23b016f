/// GPUs as a TOML file tells, which may be rewritten at any time. Format: docs/formats/fabric.md.
///
///     [[gpu]]
///     index = 0
///     uid = 0x1f00                # or a string; not 0
///     domain_uuid = "3b1f…"       # NVLink domain
///     clique_id = 32766
///     attached = true             # may be left out
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "fabric/view.hpp"
#include "net/event_loop.hpp"
#include "net/file_watch.hpp"

namespace imex::fabric {

inline constexpr std::size_t kGpusMax = 256;

/// In the order of their index. Errors: kInvalidArgument with line and key: not TOML, a key
/// missing, unknown or of the wrong kind, an index or uid twice, more than kGpusMax.
[[nodiscard]] Result<std::vector<Gpu>> parse_fabric_file(std::string_view text,
                                                         const std::string& path);

/// Watches the file. A bad or missing file keeps the former state and is reported once per change.
class FileView final : public FabricView {
 public:
  /// `on_error` receives what is wrong with a later version of the file. Errors: those of the first
  /// version.
  [[nodiscard]] static Result<std::unique_ptr<FileView>> open(
      net::EventLoop& loop, std::string path, std::function<void(const Error&)> on_error);
  [[nodiscard]] std::vector<Gpu> gpus() const override { return gpus_; }
  void subscribe(std::function<void(const std::vector<Gpu>&)> on_change) override;

 private:
  FileView(std::string path, std::vector<Gpu> gpus, std::function<void(const Error&)> on_error);
  void read_again();

  std::string path_;
  std::vector<Gpu> gpus_;
  std::function<void(const Error&)> on_error_;
  std::function<void(const std::vector<Gpu>&)> on_change_;
  std::unique_ptr<net::FileWatch> watch_;
};

}  // namespace imex::fabric
