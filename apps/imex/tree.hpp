/// The tree of commands: what `imex` parses with, completes from and documents itself by.
#pragma once

#include <functional>
#include <memory>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "rack_commands.hpp"
#include "tenant_commands.hpp"

namespace imex::cli {

/// Owns the parser and the values that it fills. Neither copied nor moved: the parser points into
/// it.
class CommandTree {
 public:
  CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;
  ~CommandTree();

  [[nodiscard]] CLI::App& app() noexcept { return app_; }
  /// Parses and runs. Returns the exit status.
  int run(int argc, const char* const* argv);

 private:
  using Action = std::function<Result<void>()>;
  /// A command that does something: its help ends with the examples, its action runs after parsing.
  CLI::App* leaf(CLI::App* parent, const std::string& name, const std::string& help,
                 const std::string& examples, Action action);
  void explain_missing(Error& error) const;
  void add_globals();
  void add_domain();
  void add_channel();
  void add_config();
  void add_status();
  void add_model();
  void add_generate();
  void add_chat();
  void add_perplexity();
  void add_run_options(CLI::App* command, ModelRunOptions& options);
  void add_sampling_options(CLI::App* command, GenerateOptions& options);
  static void add_secret(CLI::App* command, SecretFiles& files);
  void add_bench();
  void add_bench_memory(CLI::App* bench);
  void add_bench_generate(CLI::App* bench);
  void add_bench_load(CLI::App* bench);
  void add_bench_control(CLI::App* bench);
  void add_bench_exchange(CLI::App* bench);
  void add_exchange_values(CLI::App* command);
  void add_exchange_measuring(CLI::App* command);
  void add_partition();
  void add_vpc();
  void add_instance();
  void add_instance_create(CLI::App* instance);
  void add_gpus(CLI::App* command, const std::string& gpu_help, const std::string& gpus_help);
  void add_rack();
  void add_rack_options(CLI::App* command);
  void add_rack_fault_add(CLI::App* fault);
  void add_completion();

  CLI::App app_;
  Action action_;
  Global global_;
  std::string format_ = "table", timeout_ = "5s", shell_, workload_, idle_ = "10s";
  ChannelGrantOptions grant_;
  std::string grant_uid_;
  ConfigShowOptions config_;
  bool communicators_ = false;
  std::size_t operations_ = 16;
  ModelShowOptions model_;
  std::string fetched_model_;
  GenerateOptions generate_;
  ChatOptions chat_;
  PerplexityOptions perplexity_;
  ModelConvertOptions convert_;
  BenchMemoryOptions bench_;
  BenchGenerateOptions bench_generate_;
  BenchLoadOptions bench_load_;
  BenchControlOptions bench_control_;
  BenchExchangeOptions exchange_;
  PartitionOptions partition_;
  VpcOptions vpc_;
  InstanceOptions instance_;
  RackFaultOptions rack_;
};

}  // namespace imex::cli
