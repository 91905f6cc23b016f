/// The commands of `imex`, one function each. Every one prints its result and returns an Error or
/// nothing; main() turns that into text and exit status.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "locate.hpp"
#include "output.hpp"

namespace imex::cli {

/// Options that every command has.
struct Global {
  Format format = Format::kTable;
  std::string state_dir;
  bool quiet = false;
  std::chrono::milliseconds timeout{5'000};
};

struct ConfigShowOptions {
  std::string file;               ///< empty: built-in defaults
  std::string program = "imexd";  ///< or "nvidia-imex": whose defaults apply
  bool changed_only = false;
};
/// Every value of the daemon's configuration and where it came from.
[[nodiscard]] Result<void> config_show(const Global& global, const ConfigShowOptions& options);

/// Members of the domain as the local daemon sees them.
[[nodiscard]] Result<void> domain_show(const Global& global);

/// Channels of this node with what uses them.
[[nodiscard]] Result<void> channel_list(const Global& global);
struct ChannelGrantOptions {
  std::string workload;
  std::vector<std::uint32_t> gpu_indexes;
  std::vector<std::uint64_t> gpu_uids;
  std::optional<std::uint32_t> uid;
};
[[nodiscard]] Result<void> channel_grant(const Global& global, const ChannelGrantOptions& options);
[[nodiscard]] Result<void> channel_release(const Global& global, const std::string& workload);

/// Ranks of this user's communicators, running or crashed, and what each does; `operations`: so
/// many of the newest with JSON.
[[nodiscard]] Result<void> communicator_status(const Global& global, std::size_t operations);

struct ModelShowOptions {
  std::string path;
  std::string key_file, passphrase_file;  ///< for encrypted files
};
/// What a model on disk is: architecture, sizes, weights by role, tokenizer. Reads headers only,
/// except of encrypted files. Errors: those of inference::ModelFile::open.
[[nodiscard]] Result<void> model_show(const Global& global, const ModelShowOptions& options);

struct BenchMemoryOptions {
  std::vector<std::string> channels;  ///< of one or two daemons; empty: private daemons
  std::string daemon;                 ///< path of imexd; empty: beside this program
  std::vector<std::string> only;      ///< names of measurements; empty: all
  double scale = 1.0;                 ///< of all sample counts
  std::chrono::seconds idle{10};      ///< how long an idle daemon is watched
};
[[nodiscard]] Result<void> bench_memory(const Global& global, const BenchMemoryOptions& options);

struct BenchExchangeOptions {
  std::uint32_t ranks = 2;
  std::vector<std::string> sizes;  ///< empty: a series that the operation takes
  std::string dtype = "f32", op = "sum", buffers = "private", algorithm = "auto";
  std::string backend = "host", pages = "auto";
  std::string channel;           ///< of a daemon; empty: ranks meet directly
  std::optional<bool> in_place;  ///< unset: in place where there is a choice
  bool explain = false;          ///< also what the figures and the choice rest on
  bool check = false;            ///< compare the result of every timed call
  std::uint32_t iterations = 0;  ///< 0: by `seconds`
  double seconds = 0.3;          ///< per size
};
/// `operation` is one of bench/operation.hpp. Errors: kInvalidArgument (options), kUnsupported
/// (backend), kDataLoss (wrong results).
[[nodiscard]] Result<void> bench_exchange(const Global& global, std::string_view operation,
                                          const BenchExchangeOptions& options);

}  // namespace imex::cli
