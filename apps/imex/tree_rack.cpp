// imex rack.

#include "tree.hpp"

namespace imex::cli {

void CommandTree::add_rack_options(CLI::App* command) {
  command
      ->add_option("--control", rack_.control,
                   "socket of imex-rack; default: $IMEX_RACK_CONTROL, else the one of 'imex up'")
      ->type_name("PATH");
  command
      ->add_option("--domain", rack_.domain,
                   "name or UUID of the NVLink domain; default: the only one")
      ->type_name("DOMAIN");
}

void CommandTree::add_rack() {
  CLI::App* rack = app_.add_subcommand("rack", "the simulated rack: look at it, break it");
  rack->require_subcommand(1);
  rack->fallthrough();
  rack->footer("Example: imex rack fault add link-down --tray 3 --duration 30s");
  CLI::App* show = leaf(rack, "show", "what is wired, partitioned, healthy",
                        "Examples:\n  imex rack show\n"
                        "  imex rack show --domain rack-1 --format json | jq .tray_list[0].gpus",
                        [this] { return rack_show(global_, rack_); });
  add_rack_options(show);

  CLI::App* fault = rack->add_subcommand("fault", "what goes wrong on purpose");
  fault->require_subcommand(1);
  fault->fallthrough();
  fault->footer("Example: imex rack fault list --kinds");
  add_rack_fault_add(fault);

  CLI::App* list = leaf(fault, "list", "faults that are set, or all that there are",
                        "Examples:\n  imex rack fault list\n  imex rack fault list --kinds",
                        [this] { return rack_fault_list(global_, rack_); });
  list->add_flag("--kinds", rack_.kinds, "names that 'add' takes");
  add_rack_options(list);

  CLI::App* clear = leaf(fault, "clear", "end one, all of a kind, or all",
                         "Examples:\n  imex rack fault clear 3\n"
                         "  imex rack fault clear link-down\n  imex rack fault clear --all",
                         [this] { return rack_fault_clear(global_, rack_); });
  CLI::Option* const what =
      clear->add_option("fault", rack_.what, "number of 'list', or a kind")->type_name("ID|KIND");
  clear->add_flag("--all", rack_.all, "whatever is set")->excludes(what);
  add_rack_options(clear);
}

void CommandTree::add_rack_fault_add(CLI::App* fault) {
  CLI::App* add = leaf(fault, "add", "let something go wrong",
                       "Examples:\n  imex rack fault add link-down --tray 3 --gpu 2 --link 7\n"
                       "  imex rack fault add slow --method CreatePartition --delay 5s --count 3\n"
                       "  imex rack fault add failover --duration 30s",
                       [this] { return rack_fault_add(global_, rack_); });
  rack::FaultRequest& request = rack_.fault;
  add->add_option("kind", request.kind, "one of 'imex rack fault list --kinds'")
      ->required()
      ->type_name("KIND");
  const auto number = [&](const char* name, std::optional<std::uint32_t>& value, const char* help) {
    add->add_option(name, value, help)->type_name("N");
  };
  number("--tray", request.tray, "compute tray of the domain, from 0");
  number("--gpu", request.gpu, "module in that tray, from 1");
  number("--link", request.link, "NVLink of that GPU, from 1");
  number("--switch-tray", request.switch_tray, "switch tray of the domain, from 0");
  number("--chip", request.chip, "switch chip of the domain, from 0");
  number("--trunk", request.trunk, "trunk between two racks, from 0");
  number("--partition", request.partition, "number of the physical partition");
  add->add_option("--method", request.method, "only calls of this method")->type_name("NAME");
  number("--count", request.count, "so many calls, then it is over");
  add->add_option("--probability", request.probability, "of each call or start; default: 1")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
  add->add_option("--duration", rack_.duration, "then it is over; default: until cleared")
      ->type_name("DURATION");
  add->add_option("--after", rack_.after, "then it begins; default: now")->type_name("DURATION");
  add->add_option("--delay", rack_.delay, "how slow, how late, how often, by the kind")
      ->type_name("DURATION");
  add->add_option("--text", request.text, "by the kind")->type_name("TEXT");
  number("--number", request.number, "by the kind");
  add_rack_options(add);
}

}  // namespace imex::cli
