// Short operations are over in less time than an allocation takes: once a communicator has settled,
// they take no memory. Counts the calls of a thread to operator new, which is replaced for the
// executable.

#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testing/ranks.hpp"

namespace {
thread_local std::size_t taken = 0;
}  // namespace

// NOLINTBEGIN(misc-new-delete-overloads): the array and sized forms end up in these two
void* operator new(std::size_t bytes) {
  ++taken;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++taken;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
// NOLINTEND(misc-new-delete-overloads)

namespace imex::exchange {
namespace {

using testing_kit::run_ranks;
using testing_kit::Verdict;

TEST(CallAllocationsTest, OperationsTakeNoMemoryOnceTheirSizeIsKnown) {
  constexpr std::uint32_t kRanks = 2;
  run_ranks(kRanks, {}, [](Communicator& comm) -> Verdict {
    std::vector<float> in(kRanks * 20'000), out(kRanks * 20'000);
    const std::uint32_t peer = 1 - comm.rank();
    using Call = std::function<Result<void>(std::size_t count)>;
    const std::vector<std::pair<const char*, Call>> calls{
        {"all_reduce",
         [&](std::size_t n) {
           return comm.all_reduce(in.data(), out.data(), n, DataType::kFloat32, ReduceOp::kSum);
         }},
        {"all_gather",
         [&](std::size_t n) { return comm.all_gather(in.data(), out.data(), 4 * n); }},
        {"all_to_all",
         [&](std::size_t n) { return comm.all_to_all(in.data(), out.data(), 4 * n); }},
        {"reduce_scatter",
         [&](std::size_t n) {
           return comm.reduce_scatter(in.data(), out.data(), n, DataType::kFloat32, ReduceOp::kSum);
         }},
        {"broadcast", [&](std::size_t n) { return comm.broadcast(in.data(), 4 * n, 0); }},
        {"send and receive",
         [&](std::size_t n) {
           return comm.rank() == 0 ? comm.send(in.data(), 4 * n, peer)
                                   : comm.receive(out.data(), 4 * n, peer);
         }},
        {"barrier", [&](std::size_t) { return comm.barrier(); }}};
    for (const auto& [name, call] : calls) {
      for (const std::size_t count : {std::size_t{16}, std::size_t{20'000}}) {
        // Until the trial of the size has ended and scratch memory has grown.
        for (int i = 0; i != 40; ++i) {
          if (const auto done = call(count); !done) return done.error().to_string();
        }
        const std::size_t before = taken;
        for (int i = 0; i != 10; ++i) {
          if (const auto done = call(count); !done) return done.error().to_string();
        }
        if (taken != before)
          return fmt::format("{} of {} elements: {} allocations", name, count, taken - before);
      }
    }
    return {};
  });
  const std::size_t before = taken;
  EXPECT_EQ(std::string(100, 'x').size(), 100U);
  EXPECT_GT(taken, before) << "the count works";
}

}  // namespace
}  // namespace imex::exchange
