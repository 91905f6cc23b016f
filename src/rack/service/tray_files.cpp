#include "tray_files.hpp"

#include <span>

#include <fmt/format.h>

#include "os/file.hpp"

namespace imex::rack {

std::string tray_file_text(const Domain& domain, unsigned tray) {
  std::string text = fmt::format("# {}, compute tray {}: written by imex-rack, read by imexd.\n",
                                 domain.options().name, tray);
  for (const NvmlGpu& gpu : domain.nvml(tray)) {
    const Uuid cluster = gpu.cluster.value_or(domain.identities().domain_uuid());
    text += fmt::format(
        "\n[[gpu]]\nindex = {}\nuid = \"{:#x}\"\ndomain_uuid = \"{}\"\nclique_id = {}\nattached = "
        "{}\n",
        gpu.nvml_index, gpu.uid, cluster.to_string(), gpu.clique, gpu.attached);
  }
  return text;
}

Result<void> write_tray_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  IMEX_TRY(const os::UniqueFd fd, os::open_for_append(fresh, true, 0644));
  IMEX_CHECK_OK(os::write_all(fd.get(), std::as_bytes(std::span(text)), fresh));
  return os::rename_file(fresh, path);
}

}  // namespace imex::rack
