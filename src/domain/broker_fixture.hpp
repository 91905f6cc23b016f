/// Test help: the node that most tests of the broker start from.
#pragma once

#include "broker_harness.hpp"

namespace imex::domain {

/// A node with GPUs 0 and 1 in one partition, GPU 2 in another, and channels 1 and 2 open.
class BrokerTest : public ::testing::Test {
 protected:
  BrokerTest() : node(Node::config()) { prepare(node); }
  static void prepare(Node& n) {
    n.step(FabricChanged{{gpu_of(0, 100, 1), gpu_of(1, 101, 1), gpu_of(2, 102, 2)}});
    n.step(ChannelOpened{1, {}, kAnyUser});
    n.step(ChannelOpened{2, {}, kAnyUser});
  }
  /// What the journal would give back for `client` on GPU 0 of channel 1.
  static BrokerMemory::Session remembered(const Client& client, FdToken pidfd,
                                          std::uint64_t gpu = 100) {
    return {client.session, client.channel, 1000, gpu, pidfd};
  }
  Node node;
};

}  // namespace imex::domain
