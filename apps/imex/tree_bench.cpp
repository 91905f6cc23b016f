// The commands of `imex bench`.

#include <array>

#include <fmt/format.h>

#include "base/time.hpp"
#include "base/units.hpp"
#include "bench/exchange.hpp"
#include "bench/operation.hpp"
#include "tree.hpp"

namespace imex::cli {
namespace {

template <class Value, class NameOf>
std::vector<std::string> names(std::uint32_t count, NameOf name_of) {
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i != count; ++i) all.emplace_back(name_of(static_cast<Value>(i)));
  return all;
}

}  // namespace

void CommandTree::add_bench() {
  CLI::App* bench =
      app_.add_subcommand("bench", "measure on this machine, against limits of the same run");
  bench->require_subcommand(1);
  bench->fallthrough();
  bench->footer("Examples:\n  imex bench memory\n  imex bench all-reduce --sizes 8,4KiB,1MiB");
  add_bench_memory(bench);
  add_bench_exchange(bench);
  add_bench_generate(bench);
  add_bench_load(bench);
  add_bench_control(bench);
}

void CommandTree::add_bench_generate(CLI::App* bench) {
  CLI::App* command =
      leaf(bench, "generate", "tokens per second of a model split over ranks",
           "Examples:\n  imex bench generate --model model.gguf --ranks 1,2\n"
           "  imex bench generate --llama-bench llama.cpp/build/bin/llama-bench --format jsonl",
           [this] { return bench_generate(global_, bench_generate_); });
  add_run_options(command, bench_generate_.run);
  command->remove_option(command->get_option("--tensor-parallel"));
  command->add_option("--ranks", bench_generate_.ranks, "numbers of ranks to measure, in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("N,...")
      ->capture_default_str();
  command->add_option("--prefill", bench_generate_.prefill, "tokens of the prompt")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--decode", bench_generate_.decode, "tokens that follow")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--rounds", bench_generate_.rounds, "measurements of each, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--llama-bench", bench_generate_.llama_bench,
                   "llama.cpp's benchmark, to be measured in turn with this")
      ->type_name("FILE");
}

void CommandTree::add_bench_load(CLI::App* bench) {
  CLI::App* command =
      leaf(bench, "load", "gigabytes per second of loading a model, from the disk and from memory",
           "Examples:\n  imex bench load\n"
           "  imex bench load --model model.gguf --rounds 3 --format jsonl",
           [this] { return bench_load(global_, bench_load_); });
  command->add_option("--model", bench_load_.model, "as of 'imex generate'; default: smollm2-135m")
      ->type_name("NAME|PATH");
  command->add_option("--rounds", bench_load_.rounds, "measurements of each, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void CommandTree::add_bench_control(CLI::App* bench) {
  CLI::App* control =
      leaf(bench, "control", "from a request to Ready; requests per second; a large fleet",
           "Examples:\n  imex bench control\n"
           "  imex bench control --only ready,requests --format jsonl | jq '{operation, met}'\n"
           "  imex bench control --only fleet --scale 0.1",
           [this] { return bench_control(global_, bench_control_); });
  control->add_option("--only", bench_control_.only, "these measurements; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember({"ready", "slow", "batch", "requests", "fleet"}));
  control
      ->add_option("--scale", bench_control_.scale,
                   "multiplies the number of samples and the size of the fleet")
      ->check(CLI::Range(0.01, 10.0))
      ->capture_default_str();
  control
      ->add_option("--imex-controller", bench_control_.controller,
                   "program to start; default: the one beside this")
      ->type_name("FILE");
  control
      ->add_option("--imex-rack", bench_control_.rack,
                   "program to start; default: the one beside this")
      ->type_name("FILE");
}

void CommandTree::add_bench_memory(CLI::App* bench) {
  CLI::App* memory = leaf(
      bench, "memory", "export, import, map; signals; loss of a peer; the daemon itself",
      "Examples:\n  imex bench memory\n  imex bench memory --only share,signal --format jsonl\n"
      "  imex bench memory --channel /run/imex/10.0.0.11/channels/channel0 --only share",
      [this]() -> Result<void> {
        IMEX_TRY(const auto idle, parse_duration(idle_));
        bench_.idle = std::chrono::duration_cast<std::chrono::seconds>(idle);
        return bench_memory(global_, bench_);
      });
  memory
      ->add_option(
          "--channel", bench_.channels,
          "measure 'share' through this channel, or two of two daemons; default: private daemons")
      ->delimiter(',')
      ->expected(1, 2)
      ->type_name("PATH");
  memory
      ->add_option("--daemon", bench_.daemon,
                   "imexd to start; default: the one beside this program")
      ->type_name("FILE");
  memory->add_option("--only", bench_.only, "these measurements; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember({"share", "signal", "loss", "start", "idle", "load"}));
  memory->add_option("--scale", bench_.scale, "multiplies the number of samples")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  memory->add_option("--idle", idle_, "how long idle daemons are watched")
      ->type_name("DURATION")
      ->capture_default_str();
}

void CommandTree::add_bench_exchange(CLI::App* bench) {
  for (const bench::OperationFacts& facts : bench::operations()) {
    const std::string name(facts.name);
    CLI::App* command = leaf(bench, name, std::string(facts.help),
                             fmt::format("Examples:\n  imex bench {0} --ranks 2 --format jsonl\n"
                                         "  imex bench {0} --ranks 4 --seconds 1 --check",
                                         name),
                             [this, name] { return bench_exchange(global_, name, exchange_); });
    command->add_option("--ranks", exchange_.ranks, "processes, one per core while there are any")
        ->check(CLI::Range(2U, bench::kRanksOfBench))
        ->capture_default_str();
    command
        ->add_option("--sizes", exchange_.sizes,
                     "bytes of one rank's vector, or of the shares of all ranks together; "
                     "default: 8 to 16 MiB")
        ->delimiter(',')
        ->type_name("SIZE,...");
    add_exchange_values(command);
    add_exchange_measuring(command);
  }
}

void CommandTree::add_exchange_values(CLI::App* command) {
  const auto choice = [&](const std::string& name, std::string& value, const std::string& help,
                          const std::vector<std::string>& accepted) {
    command->add_option(name, value, help)->check(CLI::IsMember(accepted))->capture_default_str();
  };
  choice("--dtype", exchange_.dtype, "type of the elements",
         names<DataType>(kDataTypeCount, data_type_name));
  choice("--op", exchange_.op, "of reductions: what is done with them",
         names<ReduceOp>(kReduceOpCount, reduce_op_name));
  choice("--buffers", exchange_.buffers, "any memory, or the communicator's own",
         {"private", "registered"});
  choice("--pages", exchange_.pages, "that the vectors lie on", {"auto", "huge", "small"});
  choice("--algorithm", exchange_.algorithm, "where it can serve; auto elsewhere",
         names<Algorithm>(kAlgorithmCount, algorithm_name));
  choice("--backend", exchange_.backend, "memory that the vectors lie in", {"host", "cuda"});
  command
      ->add_option("--channel", exchange_.channel,
                   "ranks meet through the daemon of this channel; default: directly")
      ->type_name("PATH");
  command->add_flag_callback(
      "--in-place", [this] { exchange_.in_place = true; },
      "the result replaces the input; the default where there is a choice");
  command->add_flag_callback(
      "--out-of-place", [this] { exchange_.in_place = false; }, "the result goes elsewhere");
}

void CommandTree::add_exchange_measuring(CLI::App* command) {
  command->add_option("--iterations", exchange_.iterations, "per size; default: by --seconds")
      ->check(CLI::Range(1U, bench::kIterationsMax));
  command->add_option("--seconds", exchange_.seconds, "per size")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_flag("--check", exchange_.check,
                    "verify the result of every timed call, not of the first and last");
  command->add_flag("--explain", exchange_.explain,
                    "add what the figures, the limit and the choice rest on");
}

}  // namespace imex::cli
