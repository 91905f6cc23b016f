// JSON of an NMX-M, any bytes: one line for each list of a pass (GPUs, partitions, nodes,
// services), then an operation. Whatever becomes a view of the domain keeps the rules that the
// reconciler relies on.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "answer.hpp"
#include "base/assert.hpp"
#include "domain_reader.hpp"

namespace {

using namespace imex;
using namespace imex::fabric;

void check(const nmxm::DomainView& view) {
  const Snapshot& snapshot = view.snapshot;
  IMEX_ASSERT(view.partitions.size() == snapshot.partitions.size(),
              "one entity for each partition");
  for (std::size_t i = 1; i < snapshot.gpus.size(); ++i)
    IMEX_ASSERT(snapshot.gpus[i - 1].uid < snapshot.gpus[i].uid, "each GPU once, in order");
  for (const ObservedGpu& gpu : snapshot.gpus)
    IMEX_ASSERT(view.gpus.contains(gpu.uid), "each GPU has its entity");
  for (const nmxm::OwnPartition& own : view.partitions) {
    const ObservedPartition* partition = snapshot.find_partition(own.entry.partition.id);
    IMEX_ASSERT(partition != nullptr && partition->gpu_uids == own.entry.partition.gpu_uids,
                "both say the same");
    for (const std::uint64_t uid : partition->gpu_uids)
      IMEX_ASSERT(own.complete ||
                      std::binary_search(snapshot.disputed.begin(), snapshot.disputed.end(), uid),
                  "half a partition is disputed");
  }
  static_cast<void>(nmxm::update_body(view.partitions.empty() ? std::vector<nmxm::Member>()
                                                              : view.partitions[0].entry.members));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 5> lines;
  for (std::string_view& line : lines) {
    const std::size_t end = rest.find('\n');
    line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  nmxm::DomainLists lists;
  if (auto gpus = nmxm::read_gpus(lines[0])) lists.gpus = *std::move(gpus);
  if (auto partitions = nmxm::read_partitions(lines[1])) lists.partitions = *std::move(partitions);
  if (auto nodes = nmxm::read_nodes(lines[2])) lists.nodes = *std::move(nodes);
  if (auto services = nmxm::read_services(lines[3])) lists.services = *std::move(services);
  static_cast<void>(nmxm::read_operation(lines[4]));
  static_cast<void>(nmxm::read_operation_id(lines[4]));
  IMEX_ASSERT(!nmxm::read_error(lines[4]).empty(), "an error always says something");
  nmxm::DomainReader reader(*Uuid::parse("3b1f8a52-0d1c-4c7e-9c54-7b1a2d3e4f50"));
  if (const auto view = reader.read(std::move(lists))) check(*view);
  return 0;
}
