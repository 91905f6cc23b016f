// imex partition, imex vpc, imex instance.

#include "tree.hpp"

namespace imex::cli {
namespace {

void add_controller(CLI::App* command, ControllerOptions& options) {
  command
      ->add_option("--controller", options.url,
                   "its URL; default: $IMEX_CONTROLLER_URL, else the one that 'imex up' started")
      ->type_name("URL");
  command->add_option("--org", options.org, "whose objects; default: $IMEX_ORG, as above")
      ->type_name("ORG");
  command
      ->add_option("--token-file", options.token_file,
                   "file with a bearer token; default: $IMEX_TOKEN_FILE, as above")
      ->type_name("FILE");
  command
      ->add_option("--controller-ca", options.authority,
                   "PEM file to check the controller with; default: $IMEX_CONTROLLER_CA, the "
                   "system's")
      ->type_name("FILE");
}

void add_site(CLI::App* command, ControllerOptions& options) {
  command
      ->add_option("--site", options.site, "by id or name; default: $IMEX_SITE, else the only one")
      ->type_name("SITE");
}

void add_dry_run(CLI::App* command, TenantOptions& options) {
  command->add_flag("--dry-run", options.dry_run,
                    "print the operations that would follow, and change nothing");
}

/// `until`: what is waited for.
void add_wait(CLI::App* command, TenantOptions& options, const std::string& until) {
  command->add_flag("--wait", options.wait, "until " + until);
  command->add_option("--wait-timeout", options.wait_timeout, "longest time of --wait")
      ->type_name("DURATION")
      ->capture_default_str();
}

void add_target(CLI::App* command, TenantOptions& options, const std::string& placeholder) {
  command->add_option("id", options.target, "its id, or a name that only one has")
      ->required()
      ->type_name(placeholder);
}

void add_description(CLI::App* command, TenantOptions& options) {
  command->add_option("--description", options.description, "up to 1024 characters")
      ->type_name("TEXT");
}

void add_labels(CLI::App* command, TenantOptions& options, const std::string& help) {
  command->add_option("--label", options.labels, help)->delimiter(',')->type_name("KEY=VALUE,...");
}

}  // namespace

void CommandTree::add_partition() {
  CLI::App* partition =
      app_.add_subcommand("partition", "logical partitions: GPUs that may share memory");
  partition->require_subcommand(1);
  partition->fallthrough();
  partition->footer("Example: imex partition create training");
  PartitionOptions& options = partition_;
  const auto add_fabric = [&](CLI::App* command) {
    command
        ->add_option("--multicast-groups", options.multicast_groups,
                     "of each physical partition, a multiple of 4; a domain has 1024")
        ->check(CLI::Range(0U, 1024U))
        ->type_name("N");
    command
        ->add_option("--resiliency", options.resiliency, "what a partition does that loses links")
        ->check(CLI::IsMember({"FullBandwidth", "AdaptiveBandwidth", "UserActionRequired"}));
  };

  CLI::App* list = leaf(partition, "list", "all of the org, with what is in them",
                        "Examples:\n  imex partition list\n"
                        "  imex partition list --format jsonl | jq 'select(.status != \"Ready\")'",
                        [this] { return partition_list(global_, partition_); });
  add_controller(list, options.controller);

  CLI::App* show =
      leaf(partition, "show", "its GPUs, and which of them can reach one another",
           "Examples:\n  imex partition show training\n"
           "  imex partition show training --format json | jq '.sharing_groups | length'",
           [this] { return partition_show(global_, partition_); });
  add_target(show, options, "PARTITION");
  add_controller(show, options.controller);

  CLI::App* create = leaf(partition, "create", "make one without GPUs",
                          "Examples:\n  imex partition create training\n"
                          "  imex partition create training --wait --format json | jq -r .id",
                          [this] { return partition_create(global_, partition_); });
  create->add_option("name", options.name, "2 to 256 characters, unique in the org")
      ->required()
      ->type_name("NAME");
  add_description(create, options);
  add_fabric(create);
  add_site(create, options.controller);
  add_wait(create, options, "it is Ready");
  add_dry_run(create, options);
  add_controller(create, options.controller);

  CLI::App* update = leaf(partition, "update", "change its name, description or fabric attributes",
                          "Example: imex partition update training --name training-2",
                          [this] { return partition_update(global_, partition_); });
  add_target(update, options, "PARTITION");
  update->add_option("--name", options.name, "another name")->type_name("NAME");
  add_description(update, options);
  add_fabric(update);
  add_wait(update, options, "it is Ready");
  add_dry_run(update, options);
  add_controller(update, options.controller);

  CLI::App* remove = leaf(partition, "delete", "end one that no VPC and no instance needs any more",
                          "Examples:\n  imex partition delete training --wait\n"
                          "  imex partition delete training --dry-run",
                          [this] { return partition_delete(global_, partition_); });
  add_target(remove, options, "PARTITION");
  add_wait(remove, options, "it is gone from the fabric");
  add_dry_run(remove, options);
  add_controller(remove, options.controller);
}

void CommandTree::add_vpc() {
  CLI::App* vpc =
      app_.add_subcommand("vpc", "networks of instances, and the partition their GPUs go to");
  vpc->require_subcommand(1);
  vpc->fallthrough();
  vpc->footer("Example: imex vpc create net-a --default-partition training");
  VpcOptions& options = vpc_;
  const auto add_default = [&](CLI::App* command) {
    return command
        ->add_option("--default-partition", options.default_partition,
                     "all GPUs of new instances of the VPC go there")
        ->type_name("PARTITION");
  };

  CLI::App* list = leaf(vpc, "list", "all of the org", "Example: imex vpc list",
                        [this] { return vpc_list(global_, vpc_); });
  add_controller(list, options.controller);

  CLI::App* show = leaf(vpc, "show", "one of them", "Example: imex vpc show net-a",
                        [this] { return vpc_show(global_, vpc_); });
  add_target(show, options, "VPC");
  add_controller(show, options.controller);

  CLI::App* create = leaf(vpc, "create", "make one",
                          "Examples:\n  imex vpc create net-a\n"
                          "  imex vpc create net-a --default-partition training --wait",
                          [this] { return vpc_create(global_, vpc_); });
  create->add_option("name", options.name, "2 to 256 characters")->required()->type_name("NAME");
  add_description(create, options);
  add_labels(create, options, "at most 10");
  add_default(create);
  add_site(create, options.controller);
  add_wait(create, options, "it is Ready");
  add_dry_run(create, options);
  add_controller(create, options.controller);

  CLI::App* update = leaf(vpc, "update", "change its name, description, labels or default",
                          "Examples:\n  imex vpc update net-a --default-partition training\n"
                          "  imex vpc update net-a --no-default-partition",
                          [this] { return vpc_update(global_, vpc_); });
  add_target(update, options, "VPC");
  update->add_option("--name", options.name, "another name")->type_name("NAME");
  add_description(update, options);
  add_labels(update, options, "all of them, anew");
  CLI::Option* const with_default = add_default(update);
  update
      ->add_flag("--no-default-partition", options.no_default_partition,
                 "new instances decide for themselves")
      ->excludes(with_default);
  add_wait(update, options, "it is Ready");
  add_dry_run(update, options);
  add_controller(update, options.controller);

  CLI::App* remove =
      leaf(vpc, "delete", "end one without instances", "Example: imex vpc delete net-a --wait",
           [this] { return vpc_delete(global_, vpc_); });
  add_target(remove, options, "VPC");
  add_wait(remove, options, "it is gone");
  add_dry_run(remove, options);
  add_controller(remove, options.controller);
}

void CommandTree::add_instance() {
  CLI::App* instance =
      app_.add_subcommand("instance", "machines of the tenant, and where their GPUs are");
  instance->require_subcommand(1);
  instance->fallthrough();
  instance->footer("Example: imex instance create --gpus 4 --partition training --wait");
  InstanceOptions& options = instance_;

  CLI::App* list = leaf(instance, "list", "all of the org, with machine, partition and domain",
                        "Examples:\n  imex instance list\n"
                        "  imex instance list --format jsonl | jq -r '.machine_id'",
                        [this] { return instance_list(global_, instance_); });
  add_controller(list, options.controller);

  CLI::App* show =
      leaf(instance, "show", "one of them, GPU by GPU", "Example: imex instance show node-1",
           [this] { return instance_show(global_, instance_); });
  add_target(show, options, "INSTANCE");
  add_controller(show, options.controller);

  add_instance_create(instance);

  CLI::App* update =
      leaf(instance, "update", "move GPUs to other partitions; change name, description, labels",
           "Examples:\n  imex instance update node-1 --gpu 2=inference --wait   # moves one GPU\n"
           "  imex instance update node-1 --gpu 2=none               # takes it out\n"
           "  imex instance update node-1 --gpus 4 --partition training\n"
           "  imex instance update node-1 --gpus 0                   # takes all out",
           [this] { return instance_update(global_, instance_); });
  add_target(update, options, "INSTANCE");
  add_gpus(update, "these change, the others stay: 2=training, 3=none",
           "exactly the first N are in --partition, all others in none");
  update->add_option("--name", options.name, "another name")->type_name("NAME");
  add_description(update, options);
  add_labels(update, options, "all of them, anew");
  add_wait(update, options, "all GPUs are where they should be");
  add_dry_run(update, options);
  add_controller(update, options.controller);

  CLI::App* remove = leaf(instance, "delete", "give the machine back",
                          "Example: imex instance delete node-1 --wait",
                          [this] { return instance_delete(global_, instance_); });
  add_target(remove, options, "INSTANCE");
  add_wait(remove, options, "its GPUs have left their partitions and it is gone");
  add_dry_run(remove, options);
  add_controller(remove, options.controller);
}

void CommandTree::add_instance_create(CLI::App* instance) {
  InstanceOptions& options = instance_;
  CLI::App* create =
      leaf(instance, "create", "get a machine, or several in one NVLink domain",
           "Examples:\n  imex instance create --gpus 4 --partition training --wait\n"
           "  imex instance create node-1 --gpu 0=training,1=training,2=inference\n"
           "  imex instance create worker --count 18 --domain require --partition training",
           [this] { return instance_create(global_, instance_); });
  create
      ->add_option("name", options.name,
                   "of several: what their names begin with; default: made up")
      ->type_name("NAME");
  add_gpus(create, "these and no others: 0=training,1=inference",
           "the first N of the machine; without --gpu and --gpus: all, if --partition is given");
  create->add_option("--count", options.count, "all or none of so many")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  create
      ->add_option("--domain", options.domain,
                   "one NVLink domain for all: must be, should be, or does not matter")
      ->check(CLI::IsMember({"require", "prefer", "ignore"}));
  create
      ->add_option("--vpc", options.vpc,
                   "by id or name; default: the only one, and one is made if there is none")
      ->type_name("VPC");
  CLI::Option* const type = create
                                ->add_option("--type", options.type,
                                             "instance type, by id or name; default: the only one")
                                ->type_name("TYPE");
  create->add_option("--machine", options.machine, "this very machine")
      ->type_name("ID")
      ->excludes(type);
  create->add_option("--operating-system", options.operating_system, "id; default: boots nothing")
      ->type_name("ID");
  create->add_option("--subnet", options.subnet, "id; default: one that nobody looks at")
      ->type_name("ID");
  add_description(create, options);
  add_labels(create, options, "at most 10");
  add_site(create, options.controller);
  add_wait(create, options, "it is Ready and its GPUs are where they should be");
  add_dry_run(create, options);
  add_controller(create, options.controller);
}

void CommandTree::add_gpus(CLI::App* command, const std::string& gpu_help,
                           const std::string& gpus_help) {
  CLI::Option* const gpu = command->add_option("--gpu", instance_.gpu, gpu_help)
                               ->delimiter(',')
                               ->type_name("INDEX[=PARTITION],...");
  command->add_option("--gpus", instance_.gpus, gpus_help)
      ->check(CLI::Range(0U, 1024U))
      ->excludes(gpu)
      ->type_name("N");
  command->add_option("--partition", instance_.partition, "where they go, by id or name")
      ->type_name("PARTITION");
}

}  // namespace imex::cli
