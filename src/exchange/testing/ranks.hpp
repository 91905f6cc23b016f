/// Ranks as threads of the test.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <imex/communicator.hpp>

namespace imex::exchange::testing_kit {

/// What a rank found wrong; empty: nothing.
using Verdict = std::string;

inline Verdict verdict_of(const Result<void>& result) {
  return result ? Verdict{} : result.error().to_string();
}

/// Runs `body` as every rank of a communicator, with options by rank; all verdicts must be empty.
inline void run_ranks_with(const std::function<CommunicatorOptions(std::uint32_t rank)>& options,
                           std::uint32_t ranks, const std::function<Verdict(Communicator&)>& body) {
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous) << rendezvous.error().to_string();
  std::vector<Verdict> verdicts(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = Communicator::create(rendezvous->id(), rank, ranks, options(rank));
      verdicts[rank] = comm ? body(*comm) : comm.error().to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    EXPECT_EQ(verdicts[rank], "") << "rank " << rank << " of " << ranks;
  }
}

/// The same options for all.
inline void run_ranks(std::uint32_t ranks, const CommunicatorOptions& options,
                      const std::function<Verdict(Communicator&)>& body) {
  run_ranks_with([&](std::uint32_t) { return options; }, ranks, body);
}

}  // namespace imex::exchange::testing_kit
