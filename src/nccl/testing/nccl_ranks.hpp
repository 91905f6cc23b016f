/// Ranks of the shim within one process, for tests.
#pragma once

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imex/nccl/nccl.h>

namespace imex::nccl::testing_kit {

#define NCCL_OK(call) ASSERT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)

/// Ranks of one thread.
class Ranks {
 public:
  explicit Ranks(int ranks) : comms_(static_cast<std::size_t>(ranks)) {
    EXPECT_EQ(ncclCommInitAll(comms_.data(), ranks, nullptr), ncclSuccess)
        << ncclGetLastError(nullptr);
  }
  ~Ranks() {
    for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  ncclComm_t operator[](std::size_t rank) const { return comms_[rank]; }
  [[nodiscard]] std::size_t size() const { return comms_.size(); }

  /// Runs `call` for each rank in one group.
  ncclResult_t group(const std::function<ncclResult_t(std::size_t)>& call) const {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t rank = 0; rank != size(); ++rank) EXPECT_EQ(call(rank), ncclSuccess);
    return ncclGroupEnd();
  }

 private:
  std::vector<ncclComm_t> comms_;
};

/// Runs `body` as each rank on a thread of its own.
inline void run_threads(int ranks, const std::function<void(int, const ncclUniqueId&)>& body) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank != ranks; ++rank) threads.emplace_back(body, rank, id);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace imex::nccl::testing_kit
