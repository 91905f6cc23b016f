#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "base/version.hpp"
#include "bench/report.hpp"
#include "inference/catalogue/catalogue.hpp"
#include "inference/weights/rank_weights.hpp"
#include "os/file.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"
#include "running_model.hpp"

namespace imex::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Files that are loaded together.
struct FileSet {
  std::vector<std::string> paths;
  std::uint64_t bytes = 0;
};

FileSet files_of(const std::string& path) {
  FileSet set;
  std::error_code ignored;
  const auto add = [&](const fs::path& file) {
    set.paths.push_back(file.string());
    set.bytes += fs::file_size(file, ignored);
  };
  if (!fs::is_directory(path, ignored)) {
    add(path);
    return set;
  }
  for (const auto& entry : fs::recursive_directory_iterator(path, ignored)) {
    if (entry.is_regular_file(ignored)) add(entry.path());
  }
  return set;
}

Result<os::UniqueFd> open_to_read(const std::string& path) {
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail(system_error(errno, fmt::format("open '{}'", path)));
  return fd;
}

/// Bytes of a file that the page cache holds.
Result<std::uint64_t> cached_bytes(const std::string& path) {
  IMEX_TRY(const auto mapping, os::map_file(path));
  const std::size_t page = os::page_bytes();
  std::vector<unsigned char> pages((mapping.size() + page - 1) / page);
  if (::mincore(mapping.data(), mapping.size(), pages.data()) != 0) {
    return fail(system_error(errno, fmt::format("mincore '{}'", path)));
  }
  const auto held = std::ranges::count_if(pages, [](unsigned char flags) { return flags & 1U; });
  return static_cast<std::uint64_t>(held) * page;
}

/// Makes the next reader go to the disk. False where the kernel keeps the pages: a file system in
/// memory has no disk, and somebody else may have the file mapped.
Result<bool> drop_from_cache(const FileSet& set) {
  std::uint64_t held = 0;
  for (const std::string& path : set.paths) {
    IMEX_TRY(const auto fd, open_to_read(path));
    static_cast<void>(::fdatasync(fd.get()));  // pages that wait to be written are not dropped
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
    if (fs::file_size(path) == 0) continue;
    IMEX_TRY(const std::uint64_t bytes, cached_bytes(path));
    held += bytes;
  }
  return held * 20 <= set.bytes;
}

/// One after the other, as the disk likes it best; brings all of it into the page cache.
Result<void> read_through(const FileSet& set) {
  std::vector<char> buffer(std::size_t{4} << 20U);
  for (const std::string& path : set.paths) {
    IMEX_TRY(const auto fd, open_to_read(path));
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
    ssize_t got = 0;
    while ((got = ::read(fd.get(), buffer.data(), buffer.size())) > 0) {
      if (interrupted()) return fail(Errc::kAborted, "interrupted");
    }
    if (got < 0) return fail(system_error(errno, fmt::format("read '{}'", path)));
  }
  return {};
}

/// Every byte of mapped pages read once by all usable cores: what memory gives.
Result<void> read_mapped(const FileSet& set) {
  std::atomic<std::uint64_t> sink{0};  // keeps the compiler from leaving the sum out
  for (const std::string& path : set.paths) {
    if (fs::file_size(path) == 0) continue;
    IMEX_TRY(const auto mapping, os::map_file(path));
    const std::size_t words = mapping.size() / sizeof(std::uint64_t);
    const auto* const first = reinterpret_cast<const std::uint64_t*>(mapping.data());
    const std::size_t threads = os::usable_cores();
    std::vector<std::jthread> readers;
    for (std::size_t i = 0; i < threads; ++i) {
      const std::span part(first + words * i / threads, first + words * (i + 1) / threads);
      readers.emplace_back(
          [part, &sink] { sink += std::accumulate(part.begin(), part.end(), std::uint64_t{0}); });
    }
  }
  return {};
}

/// A model read from where a measurement wants it.
class LoadBench {
 public:
  LoadBench(std::string path, std::string image_directory)
      : path_(std::move(path)),
        image_directory_(std::move(image_directory)),
        model_files_(files_of(path_)) {}

  /// Opens, packs unless there is an image, and reads every weight once, as the first step does.
  Result<void> load() {
    IMEX_TRY(const auto file, inference::ModelFile::open(path_));
    inference::PackOptions options;
    options.directory = image_directory_;
    options.threads = os::usable_cores();
    IMEX_TRY(const auto image, inference::PackedImage::open(file, path_, options));
    if (!image.why().empty()) {
      return fail(Errc::kUnavailable, "the packed weights cannot be kept: " + image.why(),
                  "free space in the cache folder, or point IMEX_CACHE_DIR to another one");
    }
    packs_ = image.origin() != inference::PackedImage::Origin::kNone;
    IMEX_TRY(const auto facts, inference::split_facts_of(file));
    IMEX_TRY(const auto plan, inference::plan_split(facts, 1, false));
    IMEX_TRY(const auto weights, inference::RankWeights::cut(file, image, plan, 0));
    constexpr std::size_t kPlaces = 4;
    sink_ = sink_ + weights.read_all(kPlaces);
    return {};
  }

  Result<void> forget_image() {
    IMEX_CHECK_OK(os::remove_tree(image_directory_));
    return os::make_directories(image_directory_);
  }

  /// After a load().
  [[nodiscard]] bool packs() const noexcept { return packs_; }
  [[nodiscard]] const FileSet& model_files() const noexcept { return model_files_; }
  /// What a load reads once the image is there: the image and what is not packed.
  [[nodiscard]] FileSet image_files() const { return files_of(image_directory_); }

 private:
  std::string path_, image_directory_;
  FileSet model_files_;
  bool packs_ = false;
  volatile std::uint64_t sink_ = 0;
};

/// Where the bytes came from, what was done with them, and how fast.
struct LoadRow {
  std::string operation, source;
  std::uint64_t bytes = 0;
  std::vector<double> seconds{};
  std::string limit{};  ///< the operation that it is held against; empty: is a limit itself
};

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, at);
  return *at;
}

class LoadReport {
 public:
  template <class Work>
  Result<void> time(const LoadRow& row, const Work& work) {
    const auto begun = Clock::now();
    IMEX_CHECK_OK(work());
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    auto found = std::ranges::find_if(rows_, [&](const LoadRow& known) {
      return known.operation == row.operation && known.source == row.source;
    });
    if (found == rows_.end()) found = rows_.insert(rows_.end(), row);
    found->seconds.push_back(seconds);
    return {};
  }

  [[nodiscard]] std::vector<Json> json(const std::string& model) const {
    std::vector<Json> lines;
    for (const LoadRow& row : rows_) {
      Json line{{"operation", row.operation},
                {"source", row.source},
                {"model", model},
                {"bytes", row.bytes},
                {"load_seconds", middle(row.seconds)},
                {"gb_per_second", speed(row)},
                {"n", row.seconds.size()}};
      for (const LoadRow& limit : rows_) {
        if (limit.operation != row.limit) continue;
        line["limit"] = limit.operation;
        line["share_of_limit"] = speed(row) / speed(limit);
      }
      line["cpu"] = bench::cpu_name();
      line["commit"] = build_info().git;
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  static double speed(const LoadRow& row) {
    return static_cast<double>(row.bytes) * 1e-9 / middle(row.seconds);
  }
  std::vector<LoadRow> rows_;
};

/// What is measured takes turns: others use this machine, too.
Result<void> measure_round(LoadBench& bench, LoadReport& report, bool& has_disk) {
  const FileSet& model = bench.model_files();
  const auto load = [&] { return bench.load(); };
  IMEX_TRY(has_disk, drop_from_cache(model));
  if (has_disk) {
    IMEX_CHECK_OK(
        report.time({"read_file", "disk", model.bytes}, [&] { return read_through(model); }));
    IMEX_CHECK_OK(bench.forget_image());
    IMEX_CHECK_OK(drop_from_cache(model));
    IMEX_CHECK_OK(report.time({"load_first", "disk", model.bytes, {}, "read_file"}, load));
  }
  IMEX_CHECK_OK(read_through(model));
  IMEX_CHECK_OK(
      report.time({"read_memory", "page cache", model.bytes}, [&] { return read_mapped(model); }));
  IMEX_CHECK_OK(bench.forget_image());
  IMEX_CHECK_OK(report.time({"load_first", "page cache", model.bytes, {}, "read_memory"}, load));
  if (!bench.packs()) return {};
  const FileSet image = bench.image_files();
  IMEX_CHECK_OK(report.time({"load_again", "page cache", image.bytes, {}, "read_memory"}, load));
  IMEX_TRY(const bool dropped, drop_from_cache(image));
  if (!has_disk || !dropped) return {};
  return report.time({"load_again", "disk", image.bytes, {}, "read_file"}, load);
}

Table load_table(const std::vector<Json>& lines) {
  Table table({"OPERATION", "SOURCE", "SIZE", "SECONDS", "GB_PER_S", "LIMIT", "OF_LIMIT", "N"});
  for (const Json& line : lines) {
    const bool limited = line.contains("limit");
    table.add({line["operation"], line["source"], format_size(line["bytes"].get<std::uint64_t>()),
               fmt::format("{:.3f}", line["load_seconds"].get<double>()),
               fmt::format("{:.2f}", line["gb_per_second"].get<double>()),
               limited ? line["limit"].get<std::string>() : "-",
               limited ? fmt::format("{:.2f}", line["share_of_limit"].get<double>()) : "-",
               fmt::format("{}", line["n"].get<std::size_t>())});
  }
  return table;
}

}  // namespace

Result<void> bench_load(const Global& global, const BenchLoadOptions& options) {
  catch_interrupts();
  IMEX_TRY(const auto cache, inference::ModelCache::from_environment());
  IMEX_TRY(const std::string path, inference::find_model(options.model.value_or("smollm2-135m")));
  // Beside the images of this user, so on the same disk, and never one of them.
  const std::string folder = fmt::format("{}/bench-load-{}", cache.folder, ::getpid());
  struct Cleanup {
    const std::string& folder;
    ~Cleanup() { static_cast<void>(os::remove_tree(folder)); }
  } const cleanup{folder};
  LoadBench bench(path, folder);
  LoadReport report;
  bool has_disk = false;
  {
    Progress progress(options.rounds, global.quiet);
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
      progress.step(fmt::format("round {}", round + 1));
      IMEX_CHECK_OK(measure_round(bench, report, has_disk));
    }
  }
  if (!has_disk && !global.quiet) {
    fmt::print(stderr, "imex: '{}' stays in memory: nothing was read from a disk\n", path);
  }
  const auto lines = report.json(fs::path(path).filename().string());
  return print(render_list(global.format, "results", lines, load_table(lines)));
}

}  // namespace imex::cli
