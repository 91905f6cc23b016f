// Communicators through the C API: ranks as threads.
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <imex/communicator.hpp>
#include <imex/imex.h>

namespace imex {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

#define C_OK(call) ASSERT_EQ(call, IMEX_OK) << imex_last_error()

using CommunicatorPtr =
    std::unique_ptr<imex_communicator,
                    decltype([](imex_communicator* each) { imex_communicator_end(each); })>;

/// Runs `body` as every rank.
void run_c_ranks(std::uint32_t ranks, const imex_communicator_options& options,
                 const std::function<void(imex_communicator*, std::uint32_t)>& body) {
  imex_rendezvous* rendezvous = nullptr;
  C_OK(imex_rendezvous_create(&rendezvous));
  const imex_unique_id id = imex_rendezvous_id(rendezvous);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    threads.emplace_back([&, rank] {
      imex_communicator* made = nullptr;
      C_OK(imex_communicator_create(&id, rank, ranks, &options, &made));
      const CommunicatorPtr communicator(made);
      body(made, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  imex_rendezvous_end(rendezvous);
}
void run_c_ranks(std::uint32_t ranks,
                 const std::function<void(imex_communicator*, std::uint32_t)>& body) {
  const imex_communicator_options options = IMEX_COMMUNICATOR_OPTIONS_INIT;
  run_c_ranks(ranks, options, body);
}

TEST(CCommunicatorTest, NumbersAgreeWithCpp) {
  EXPECT_EQ(data_type_name(static_cast<DataType>(IMEX_BFLOAT16)), "bf16");
  EXPECT_EQ(data_type_name(static_cast<DataType>(IMEX_FLOAT8_E4M3)), "e4m3");
  EXPECT_EQ(data_type_name(static_cast<DataType>(IMEX_INT16)), "i16");
  EXPECT_EQ(data_type_name(static_cast<DataType>(IMEX_FLOAT64)), "f64");
  EXPECT_EQ(reduce_op_name(static_cast<ReduceOp>(IMEX_MAX)), "max");
  EXPECT_EQ(reduce_op_name(static_cast<ReduceOp>(IMEX_AVG)), "avg");
  EXPECT_EQ(static_cast<int>(Determinism::kFast), IMEX_FAST);
  EXPECT_EQ(static_cast<int>(Algorithm::kRegistered), IMEX_ALGORITHM_REGISTERED);
  const imex_communicator_options c = IMEX_COMMUNICATOR_OPTIONS_INIT;
  const CommunicatorOptions cpp;
  EXPECT_EQ(c.slot_bytes, cpp.slot_bytes);
  EXPECT_EQ(c.lanes, cpp.lanes);
  EXPECT_EQ(std::chrono::milliseconds(c.timeout_ms), cpp.timeout);
}

TEST(CCommunicatorTest, EveryOperationMovesWhatItSays) {
  run_c_ranks(3, [](imex_communicator* comm, std::uint32_t rank) {
    EXPECT_EQ(imex_communicator_rank(comm), rank);
    EXPECT_EQ(imex_communicator_size(comm), 3U);
    EXPECT_EQ(imex_communicator_generation(comm), 1U);
    const auto own = static_cast<std::int32_t>(rank + 1);
    constexpr std::array<std::int32_t, 3> kScales{1, 10, 100};
    const std::int32_t scale = kScales[rank];
    std::array<std::int32_t, 3> in{own, 10 * own, 100 * own}, out{};
    C_OK(imex_all_reduce(comm, in.data(), out.data(), 3, IMEX_INT32, IMEX_SUM, 0));
    EXPECT_THAT(out, ElementsAre(6, 60, 600));
    std::int32_t part = 0;
    C_OK(imex_reduce_scatter(comm, in.data(), &part, 1, IMEX_INT32, IMEX_MAX, 0));
    EXPECT_EQ(part, 3 * scale);
    C_OK(imex_all_gather(comm, &own, out.data(), sizeof own, 0));
    EXPECT_THAT(out, ElementsAre(1, 2, 3));
    part = own;
    C_OK(imex_broadcast(comm, &part, sizeof part, 2, 0));
    EXPECT_EQ(part, 3);
    C_OK(imex_reduce(comm, in.data(), rank == 1 ? out.data() : nullptr, 3, IMEX_INT32, IMEX_PROD, 1,
                     0));
    if (rank == 1) {
      EXPECT_THAT(out, ElementsAre(6, 6'000, 6'000'000));
    }
    C_OK(imex_all_to_all(comm, in.data(), out.data(), sizeof own, 0));
    EXPECT_THAT(out, ElementsAre(scale, 2 * scale, 3 * scale));
    C_OK(imex_barrier(comm, 0));
  });
}

TEST(CCommunicatorTest, PartsHaveTheirOwnSizes) {
  // Rank r sends r + peer bytes of its number to each.
  run_c_ranks(3, [](imex_communicator* comm, std::uint32_t rank) {
    const std::array<char, 8> mine = {static_cast<char>('a' + rank), static_cast<char>('a' + rank),
                                      static_cast<char>('a' + rank), static_cast<char>('a' + rank)};
    std::array<std::array<char, 8>, 3> received{};
    std::array<imex_part, 3> parts{};
    for (std::uint32_t peer = 0; peer != 3; ++peer) {
      parts[peer] = {mine.data(), rank + peer, received[peer].data(), rank + peer};
    }
    C_OK(imex_all_to_all_v(comm, parts.data(), 0));
    for (std::uint32_t peer = 0; peer != 3; ++peer) {
      EXPECT_EQ(std::string(received[peer].data()),
                std::string(rank + peer, static_cast<char>('a' + peer)));
    }
    parts[0] = {nullptr, 1, nullptr, 0};
    EXPECT_EQ(imex_all_to_all_v(comm, parts.data(), 0), IMEX_INVALID_ARGUMENT);
    EXPECT_THAT(imex_last_error(), HasSubstr("send of a part is NULL"));
  });
}

TEST(CCommunicatorTest, SendMeetsReceiveOnALaneOfItsOwn) {
  imex_communicator_options options = IMEX_COMMUNICATOR_OPTIONS_INIT;
  options.lanes = 2;
  run_c_ranks(2, options, [](imex_communicator* comm, std::uint32_t rank) {
    std::vector<char> data(300'000, static_cast<char>('x' + rank));
    if (rank == 0) {
      C_OK(imex_send(comm, data.data(), data.size(), 1, 1));
    } else {
      C_OK(imex_receive(comm, data.data(), data.size(), 0, 1));
    }
    EXPECT_EQ(data, std::vector<char>(data.size(), 'x'));
    std::vector<char> swapped(data.size());
    data.assign(data.size(), static_cast<char>('a' + rank));
    C_OK(imex_send_receive(comm, data.data(), data.size(), 1 - rank, swapped.data(), swapped.size(),
                           1 - rank, 1));
    EXPECT_EQ(swapped, std::vector<char>(data.size(), static_cast<char>('b' - rank)));
    EXPECT_EQ(imex_send(comm, data.data(), 1, 1 - rank, 2), IMEX_INVALID_ARGUMENT);  // no such lane
  });
}

TEST(CCommunicatorTest, MemoryOfPeersIsReachedAndCounted) {
  run_c_ranks(2, [](imex_communicator* comm, std::uint32_t rank) {
    void* memory = nullptr;
    C_OK(imex_communicator_allocate(comm, 1 << 16, &memory));
    auto* own = static_cast<std::uint32_t*>(memory);
    void* there = nullptr;
    C_OK(imex_communicator_peer_memory(comm, own + 5, sizeof *own, 1 - rank, &there));
    *static_cast<std::uint32_t*>(there) = 70 + rank;
    C_OK(imex_barrier(comm, 0));
    EXPECT_EQ(own[5], 71 - rank);
    int elsewhere = 0;
    EXPECT_EQ(imex_communicator_peer_memory(comm, &elsewhere, 4, 1 - rank, &there),
              IMEX_INVALID_ARGUMENT);

    imex_communicator_counters before{};
    EXPECT_EQ(imex_communicator_count(comm, &before), IMEX_INVALID_ARGUMENT);  // no struct_size
    before.struct_size = sizeof before;
    C_OK(imex_communicator_count(comm, &before));
    C_OK(imex_all_reduce(comm, own, own, 1000, IMEX_UINT32, IMEX_SUM, 0));
    imex_communicator_counters after = before;
    C_OK(imex_communicator_count(comm, &after));
    EXPECT_EQ(after.operations, before.operations + 1);
    EXPECT_EQ(after.bytes, before.bytes + 4000);
    EXPECT_GT(after.window_bytes, 0U);
  });
}

TEST(CCommunicatorTest, AbortEndsAWaitAndShrinkGoesOn) {
  run_c_ranks(3, [](imex_communicator* comm, std::uint32_t rank) {
    int word = 1;
    if (rank == 1) {
      EXPECT_EQ(imex_communicator_error(comm), IMEX_OK);
      imex_communicator_abort(comm);
      EXPECT_EQ(imex_communicator_error(comm), IMEX_ABORTED);
      return;  // this one is not needed any more
    }
    EXPECT_EQ(imex_all_reduce(comm, &word, &word, 1, IMEX_INT32, IMEX_SUM, 0), IMEX_ABORTED);
    EXPECT_EQ(imex_last_error_rank(), 1U);
    EXPECT_EQ(imex_communicator_error(comm), IMEX_ABORTED);
    EXPECT_EQ(imex_communicator_lost_ranks(comm, nullptr, 0), 0U);
    const std::uint32_t dead = 1;
    imex_communicator* made = nullptr;
    C_OK(imex_communicator_shrink(comm, &dead, 1, &made));
    const CommunicatorPtr rest(made);
    EXPECT_EQ(imex_communicator_size(made), 2U);
    EXPECT_EQ(imex_communicator_rank(made), rank / 2);
    EXPECT_EQ(imex_communicator_generation(made), 2U);
    C_OK(imex_all_reduce(made, &word, &word, 1, IMEX_INT32, IMEX_SUM, 0));
    EXPECT_EQ(word, 2);
  });
}

TEST(CCommunicatorTest, StartedOperationsRunInOrderAndAreWaitedFor) {
  run_c_ranks(2, [](imex_communicator* comm, std::uint32_t rank) {
    std::array<std::int32_t, 2> sums{1, 1}, all{}, other{};
    const auto own = static_cast<std::int32_t>(rank + 5);
    std::array<imex_request*, 5> requests{};
    C_OK(imex_start_all_reduce(comm, sums.data(), sums.data(), 2, IMEX_INT32, IMEX_SUM, 0,
                               &requests[0]));
    C_OK(imex_start_all_gather(comm, &own, all.data(), sizeof own, 0, &requests[1]));
    C_OK(imex_start_all_to_all(comm, sums.data(), other.data(), sizeof own, 0, &requests[2]));
    C_OK(rank == 0 ? imex_start_send(comm, &own, sizeof own, 1, 0, &requests[3])
                   : imex_start_receive(comm, all.data(), sizeof own, 0, 0, &requests[3]));
    C_OK(imex_start_barrier(comm, 0, &requests[4]));
    C_OK(imex_request_wait(requests[4]));
    for (imex_request* request : requests) {
      EXPECT_EQ(imex_request_is_done(request), 1);
      C_OK(imex_request_wait(request));
      imex_request_end(request);
    }
    EXPECT_THAT(sums, ElementsAre(2, 2));
    EXPECT_THAT(all, ElementsAre(5, 6));
    EXPECT_THAT(other, ElementsAre(2, 2));
    imex_request* refused = nullptr;
    EXPECT_EQ(imex_start_send(comm, nullptr, 4, 1 - rank, 0, &refused), IMEX_INVALID_ARGUMENT);
    EXPECT_EQ(imex_start_barrier(comm, 0, nullptr), IMEX_INVALID_ARGUMENT);
    imex_request_end(nullptr);
  });
}

TEST(CCommunicatorTest, AStartedOperationEndsWithTheAbort) {
  run_c_ranks(2, [](imex_communicator* comm, std::uint32_t rank) {
    if (rank == 1) return imex_communicator_abort(comm);
    std::array<std::int32_t, 4> values{};
    std::int32_t part = 0;
    imex_request *scatter = nullptr, *reduce = nullptr, *broadcast = nullptr;
    const auto start = [&](int code) { return code == IMEX_OK || code == IMEX_ABORTED; };
    EXPECT_TRUE(start(imex_start_reduce_scatter(comm, values.data(), &part, 1, IMEX_INT32, IMEX_MIN,
                                                0, &scatter)));
    EXPECT_TRUE(start(
        imex_start_reduce(comm, values.data(), nullptr, 4, IMEX_INT32, IMEX_SUM, 1, 0, &reduce)));
    EXPECT_TRUE(start(imex_start_broadcast(comm, &part, sizeof part, 1, 0, &broadcast)));
    for (imex_request* request : {scatter, reduce, broadcast}) {
      if (request == nullptr) continue;
      EXPECT_EQ(imex_request_wait(request), IMEX_ABORTED);
      imex_request_end(request);
    }
    EXPECT_EQ(imex_communicator_error(comm), IMEX_ABORTED);
  });
}

TEST(CCommunicatorTest, PutsAreSeenOnceTheSignalIs) {
  run_c_ranks(2, [](imex_communicator* comm, std::uint32_t rank) {
    void* memory = nullptr;
    imex_allocation_options pages = IMEX_ALLOCATION_OPTIONS_INIT;
    pages.pages = 3;
    EXPECT_EQ(imex_communicator_allocate_with(comm, 4096, &pages, &memory), IMEX_INVALID_ARGUMENT);
    pages.pages = IMEX_PAGES_SMALL;
    C_OK(imex_communicator_allocate_with(comm, 4096, &pages, &memory));
    auto* words = static_cast<std::uint64_t*>(memory);
    const std::uint64_t first = 10 + rank, second = 20 + rank;
    C_OK(imex_put(comm, &first, &words[1], sizeof first, 1 - rank, 0));
    C_OK(imex_put_signal(comm, &second, &words[2], sizeof second, 1 - rank, 3, 0));
    C_OK(imex_wait_signal(comm, 1 - rank, 1, 3, 0));
    EXPECT_EQ(words[1], 11 - rank);
    EXPECT_EQ(words[2], 21 - rank);
    EXPECT_EQ(imex_put(comm, nullptr, &words[1], 8, 1 - rank, 0), IMEX_INVALID_ARGUMENT);
  });
}

TEST(CCommunicatorTest, SplitMakesOneForEachColorAndNoneWithout) {
  run_c_ranks(3, [](imex_communicator* comm, std::uint32_t rank) {
    imex_communicator* made = nullptr;
    C_OK(imex_communicator_split(comm, rank == 1 ? IMEX_NO_COLOR : 4, -static_cast<int>(rank),
                                 &made));
    const CommunicatorPtr part(made);
    ASSERT_EQ(made == nullptr, rank == 1);
    if (made == nullptr) return;
    EXPECT_EQ(imex_communicator_size(made), 2U);
    EXPECT_EQ(imex_communicator_rank(made), rank == 2 ? 0U : 1U);
  });
}

TEST(CCommunicatorTest, GrowTakesInANewcomer) {
  imex_unique_id next{};
  std::atomic<bool> told{false};
  run_c_ranks(2, [&](imex_communicator* comm, std::uint32_t rank) {
    imex_rendezvous* place = nullptr;
    imex_communicator* made = nullptr;
    std::thread newcomer;
    if (rank == 0) {
      C_OK(imex_communicator_rendezvous(comm, &place));
      next = imex_rendezvous_id(place);
      told = true;
      newcomer = std::thread([&] {
        imex_communicator* joined = nullptr;
        ASSERT_EQ(imex_communicator_create(&next, 2, 3, nullptr, &joined), IMEX_OK)
            << imex_last_error();
        const CommunicatorPtr third(joined);
        EXPECT_EQ(imex_barrier(joined, 0), IMEX_OK);
      });
    }
    while (!told) std::this_thread::yield();
    EXPECT_EQ(imex_communicator_grow(comm, &next, 3, &made), IMEX_OK) << imex_last_error();
    const CommunicatorPtr larger(made);
    if (made != nullptr) {
      EXPECT_EQ(imex_communicator_size(made), 3U);
      EXPECT_EQ(imex_communicator_rank(made), rank);
      EXPECT_EQ(imex_barrier(made, 0), IMEX_OK);
    }
    if (newcomer.joinable()) newcomer.join();
    imex_rendezvous_end(place);
  });
}

TEST(CCommunicatorTest, WrongArgumentsAreRefusedBeforeAnythingIsWaitedFor) {
  imex_rendezvous* rendezvous = nullptr;
  C_OK(imex_rendezvous_create(&rendezvous));
  const imex_unique_id id = imex_rendezvous_id(rendezvous);
  imex_communicator* made = nullptr;
  imex_communicator_options options = IMEX_COMMUNICATOR_OPTIONS_INIT;
  options.determinism = 3;
  EXPECT_EQ(imex_communicator_create(&id, 0, 1, &options, &made), IMEX_INVALID_ARGUMENT);
  EXPECT_THAT(imex_last_error(), HasSubstr("determinism 3 is none"));
  options = IMEX_COMMUNICATOR_OPTIONS_INIT;
  options.algorithm = 7;
  EXPECT_EQ(imex_communicator_create(&id, 0, 1, &options, &made), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(imex_communicator_create(&id, 1, 1, nullptr, &made), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(imex_communicator_create(nullptr, 0, 1, nullptr, &made), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);

  C_OK(imex_communicator_create(&id, 0, 1, nullptr, &made));
  const CommunicatorPtr communicator(made);
  int word = 0;
  const auto type = static_cast<imex_data_type>(14);
  EXPECT_EQ(imex_all_reduce(made, &word, &word, 1, type, IMEX_SUM, 0), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(imex_all_gather(made, nullptr, &word, 4, 0), IMEX_INVALID_ARGUMENT);
  EXPECT_THAT(imex_last_error(), HasSubstr("in is NULL"));
  EXPECT_EQ(imex_all_gather(made, &word, &word, SIZE_MAX, 0), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(imex_broadcast(made, nullptr, 4, 0, 0), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(imex_barrier(nullptr, 0), IMEX_INVALID_ARGUMENT);
  imex_rendezvous_end(rendezvous);
}

TEST(CCommunicatorTest, IdsTravelAsText) {
  imex_rendezvous* rendezvous = nullptr;
  C_OK(imex_rendezvous_create(&rendezvous));
  const imex_unique_id id = imex_rendezvous_id(rendezvous);
  char text[257];
  imex_unique_id_to_hex(&id, text);
  EXPECT_EQ(std::strlen(text), 256U);
  imex_unique_id back;
  C_OK(imex_unique_id_from_hex(text, &back));
  EXPECT_EQ(std::memcmp(&id, &back, sizeof id), 0);
  EXPECT_EQ(imex_unique_id_from_hex("abc", &back), IMEX_INVALID_ARGUMENT);
  imex_rendezvous_end(rendezvous);
}

}  // namespace
}  // namespace imex
