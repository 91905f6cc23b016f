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
#include "inference/sampling/options.hpp"
#include "locate.hpp"
#include "model_plan.hpp"
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

/// Of encrypted models: one of the two, or none.
struct SecretFiles {
  std::string key_file, passphrase_file;
};

struct ModelShowOptions {
  std::string path;  ///< or a name of the catalogue
  SecretFiles secret;
  PlanOptions plan;
  bool verify = false;  ///< compare all data with the hashes of the file
};
/// What a model on disk is: architecture, sizes, weights by role, tokenizer, and what each rank of
/// it would hold. Reads headers only, except of encrypted files and to verify. Errors: those of
/// inference::ModelFile::open and verify().
[[nodiscard]] Result<void> model_show(const Global& global, const ModelShowOptions& options);

struct ModelConvertOptions {
  std::string source, target;
  std::string dtype = "keep";  ///< or f32, f16, bf16
  SecretFiles secret;
  bool force = false;  ///< replace `target`
};
/// Writes a model in another format. Errors: those of inference::convert_model.
[[nodiscard]] Result<void> model_convert(const Global& global, const ModelConvertOptions& options);

/// Models known by name, and which of them lie in the cache of this user.
[[nodiscard]] Result<void> model_list(const Global& global);
/// Errors: those of inference::fetch_model. Prints the path.
[[nodiscard]] Result<void> model_fetch(const Global& global, const std::string& name);

/// How a model is run. What is not given here may stand in variables: IMEX_..., then NIM_....
struct ModelRunOptions {
  std::optional<std::string> model;  ///< a name of the catalogue, a file or a folder
  std::optional<std::string> tensor_parallel, max_model_len, log_level;
  bool invariant = false;             ///< the same bits for every number of ranks
  std::vector<std::string> channels;  ///< of daemons, in turn for the ranks; empty: none needed
};

struct GenerateOptions {
  ModelRunOptions run;
  std::string prompt, prompt_file;
  std::uint32_t max_tokens = 128;
  inference::SamplingOptions sampling;  ///< its seed is not looked at
  std::optional<std::uint64_t> seed;    ///< unset: random
  std::vector<std::string> stop;        ///< texts that end the answer
  bool chat = false, profile = false;
};
/// Text that follows a prompt, as it comes; then how fast it came. Errors: kInvalidArgument
/// (options, prompt), those of the model's file, kResourceExhausted (memory), kPeerLost (a rank
/// died), kAborted (Ctrl-C).
[[nodiscard]] Result<void> generate(const Global& global, const GenerateOptions& options);

struct ChatOptions {
  GenerateOptions generate;  ///< its prompt and chat are not looked at
  std::string system;        ///< what the model is told before the conversation; empty: nothing
};
/// Answers to lines of standard input, each with what was said before. Errors: those of generate().
[[nodiscard]] Result<void> chat(const Global& global, const ChatOptions& options);

struct PerplexityOptions {
  ModelRunOptions run;
  std::string file;
};
/// How well a model foretells a text: mean negative log-likelihood per token.
[[nodiscard]] Result<void> perplexity(const Global& global, const PerplexityOptions& options);

struct BenchGenerateOptions {
  ModelRunOptions run;  ///< its tensor_parallel is not looked at
  std::vector<std::uint32_t> ranks{1, 2};
  std::uint32_t prefill = 256, decode = 128;  ///< tokens
  std::uint32_t rounds = 5;
  std::string llama_bench;  ///< the peer's program; empty: no peer
};
/// Tokens per second against the time that only reading the weights takes, and against llama.cpp in
/// the same run. Errors: those of generate(), kUnavailable (the peer's program).
[[nodiscard]] Result<void> bench_generate(const Global& global,
                                          const BenchGenerateOptions& options);

struct BenchLoadOptions {
  std::optional<std::string> model;  ///< empty: smollm2-135m
  std::uint32_t rounds = 5;
};
/// Gigabytes per second from the disk and from the page cache, packing and with a packed image,
/// against reading the same files. Errors: those of find_model() and of loading.
[[nodiscard]] Result<void> bench_load(const Global& global, const BenchLoadOptions& options);

struct BenchMemoryOptions {
  std::vector<std::string> channels;  ///< of one or two daemons; empty: private daemons
  std::string daemon;                 ///< path of imexd; empty: beside this program
  std::vector<std::string> only;      ///< names of measurements; empty: all
  double scale = 1.0;                 ///< of all sample counts
  std::chrono::seconds idle{10};      ///< how long an idle daemon is watched
};
[[nodiscard]] Result<void> bench_memory(const Global& global, const BenchMemoryOptions& options);

struct BenchControlOptions {
  std::string rack, controller;   ///< programs; empty: beside this one
  std::vector<std::string> only;  ///< names of measurements; empty: all
  double scale = 1.0;             ///< of all sample counts and of the fleet
};
/// A rack and a controller of its own: from a request to Ready, requests per second, what a large
/// fleet costs. Errors: those of bench::ControlPlane.
[[nodiscard]] Result<void> bench_control(const Global& global, const BenchControlOptions& options);

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
