// Answers of a fabric controller, any bytes, in the order of a pass: whatever becomes a snapshot
// keeps the rules that the reconciler relies on.
#include <algorithm>
#include <cstdint>
#include <span>

#include "answer.hpp"
#include "base/assert.hpp"
#include "fabric/check.hpp"
#include "message_stream.hpp"

namespace {

using namespace imex;
using namespace imex::fabric;

void check(const Snapshot& snapshot) {
  for (std::size_t i = 1; i < snapshot.gpus.size(); ++i)
    IMEX_ASSERT(snapshot.gpus[i - 1].uid < snapshot.gpus[i].uid, "each GPU once, in order");
  for (std::size_t i = 1; i < snapshot.partitions.size(); ++i)
    IMEX_ASSERT(snapshot.partitions[i - 1].id < snapshot.partitions[i].id,
                "each partition once, in order");
  for (const ObservedPartition& partition : snapshot.partitions) {
    IMEX_ASSERT(partition.id != 0 && partition.name.size() <= kAnswerTextMax, "bounded");
    IMEX_ASSERT(std::is_sorted(partition.gpu_uids.begin(), partition.gpu_uids.end()),
                "members in order");
  }
  for (const ObservedGpu& gpu : snapshot.gpus) {
    IMEX_ASSERT(gpu.uid != 0, "a GPU has a uid");
    if (std::binary_search(snapshot.disputed.begin(), snapshot.disputed.end(), gpu.uid)) continue;
    const ObservedPartition* holder = snapshot.partition_of(gpu.uid);
    IMEX_ASSERT((holder == nullptr) == !gpu.partition_id &&
                    (holder == nullptr || holder->id == *gpu.partition_id),
                "what is not disputed agrees");
  }
}

class Pass {
 public:
  void take(std::uint8_t choice, std::span<const std::uint8_t> bytes) {
    switch (choice % 6) {
      case 0:
        gpus(bytes);
        break;
      case 1:
        partitions(bytes);
        break;
      case 2:
        nodes(bytes);
        break;
      case 3:
        state(bytes);
        break;
      case 4:
        notification(bytes);
        break;
      default:
        topology(bytes);
        break;
    }
  }
  void finish() {
    if (finish_snapshot(snapshot_)) check(snapshot_);
  }

 private:
  void gpus(std::span<const std::uint8_t> bytes) {
    nmx_c::GetGpuInfoListResponse message;
    if (!fuzz::parse(message, bytes)) return;
    if (auto read = nmxc::read_gpus(message)) snapshot_.gpus = *std::move(read);
  }
  void partitions(std::span<const std::uint8_t> bytes) {
    nmx_c::GetPartitionInfoListResponse message;
    if (!fuzz::parse(message, bytes)) return;
    if (auto read = nmxc::read_partitions(message, snapshot_.gpus))
      snapshot_.partitions = *std::move(read);
  }
  void nodes(std::span<const std::uint8_t> bytes) {
    nmx_c::GetComputeNodeInfoListResponse message;
    if (!fuzz::parse(message, bytes)) return;
    if (auto read = nmxc::read_nodes(message)) snapshot_.nodes = *std::move(read);
  }
  void state(std::span<const std::uint8_t> bytes) {
    nmx_c::DomainStateInfo message;
    if (!fuzz::parse(message, bytes)) return;
    static_cast<void>(nmxc::read_state(message, snapshot_));
    IMEX_ASSERT(!to_text(snapshot_.control_plane).empty(), "every number has a name");
  }
  static void notification(std::span<const std::uint8_t> bytes) {
    nmx_c::ServerNotification current;
    if (fuzz::parse(current, bytes)) static_cast<void>(nmxc::read_event(current));
    nmx_c::DraftServerNotification draft;
    if (fuzz::parse(draft, bytes)) static_cast<void>(nmxc::read_event(draft));
  }
  static void topology(std::span<const std::uint8_t> bytes) {
    nmx_c::DraftFmTopologyInfo draft;
    if (!fuzz::parse(draft, bytes)) return;
    const auto current = nmxc::from_draft(draft);
    IMEX_ASSERT(!current || current->device_topo_info_size() == draft.device_topo_info_size(),
                "no device is lost");
  }

  Snapshot snapshot_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Pass pass;
  fuzz::for_each_choice(data, size,
                        [&pass](std::uint8_t choice, std::span<const std::uint8_t> body) {
                          pass.take(choice, body);
                        });
  pass.finish();
  return 0;
}
