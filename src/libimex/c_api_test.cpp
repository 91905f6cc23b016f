// The C API over the shipped rules: codes, texts, structures that grow, and the way of one
// exchange.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <imex/imex.h>

#include "os/poll.hpp"
#include "testing/test_daemon.hpp"

namespace imex {
namespace {

using domain::client::TestDaemon;
using testing::HasSubstr;

template <auto End>
struct Ender {
  template <class T>
  void operator()(T* object) const {
    End(object);
  }
};
using SessionPtr = std::unique_ptr<imex_session, Ender<imex_session_close>>;
using AllocationPtr = std::unique_ptr<imex_allocation, Ender<imex_free>>;
using ExportPtr = std::unique_ptr<imex_export, Ender<imex_export_end>>;
using ImportPtr = std::unique_ptr<imex_import, Ender<imex_import_end>>;

SessionPtr open_session(TestDaemon& daemon, std::uint32_t gpu) {
  const std::string channel = daemon.channel(0);
  imex_session_options options = IMEX_SESSION_OPTIONS_INIT;
  options.channel = channel.c_str();
  options.gpu_index = gpu;
  imex_session* session = nullptr;
  EXPECT_EQ(imex_session_open(&options, &session), IMEX_OK) << imex_last_error();
  return SessionPtr(session);
}

AllocationPtr allocate(std::size_t bytes) {
  imex_allocation_options options = IMEX_ALLOCATION_OPTIONS_INIT;
  options.pages = IMEX_PAGES_SMALL;
  imex_allocation* memory = nullptr;
  EXPECT_EQ(imex_allocate(bytes, &options, &memory), IMEX_OK) << imex_last_error();
  return AllocationPtr(memory);
}

ExportPtr export_memory(imex_session* session, imex_allocation* memory, std::uint32_t rank) {
  imex_export_options options = IMEX_EXPORT_OPTIONS_INIT;
  options.rank = rank;
  imex_export* exported = nullptr;
  EXPECT_EQ(imex_export_memory(session, memory, &options, &exported), IMEX_OK) << imex_last_error();
  return ExportPtr(exported);
}

ImportPtr import_memory(imex_session* session, const imex_handle& handle) {
  imex_import* imported = nullptr;
  EXPECT_EQ(imex_import_memory(session, &handle, nullptr, &imported), IMEX_OK) << imex_last_error();
  return ImportPtr(imported);
}

bool await_event(imex_session* session, imex_event_kind kind, imex_event& event) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < until) {
    while (imex_next_event(session, &event) == IMEX_OK) {
      if (event.kind == kind) return true;
    }
    std::array items{os::PollItem{.fd = imex_event_fd(session)}};
    if (!os::poll_any(items, until)) break;
  }
  return false;
}

TEST(CApiTest, CodesAndNamesAgreeWithCpp) {
  for (int code = 0; code <= IMEX_INTERNAL; ++code) {
    EXPECT_EQ(imex_error_name(code), errc_name(static_cast<Errc>(code)));
  }
  EXPECT_STREQ(imex_error_name(IMEX_PEER_LOST), "peer_lost");
  EXPECT_STREQ(imex_error_name(12345), "internal");
  EXPECT_STREQ(imex_version(), IMEX_VERSION_STRING);
}

TEST(CApiTest, AFailureLeavesTheOutputAndSaysWhyPerThread) {
  auto* untouched = reinterpret_cast<imex_allocation*>(8);
  imex_allocation* out = untouched;
  EXPECT_EQ(imex_allocate(0, nullptr, &out), IMEX_INVALID_ARGUMENT);
  EXPECT_EQ(out, untouched);
  const std::string text = imex_last_error();
  EXPECT_THAT(text, HasSubstr("invalid_argument"));
  std::jthread([] { EXPECT_STREQ(imex_last_error(), ""); }).join();
  EXPECT_EQ(imex_session_open(nullptr, nullptr), IMEX_INVALID_ARGUMENT);
  EXPECT_THAT(imex_last_error(), HasSubstr("out is NULL"));
}

TEST(CApiTest, OptionStructuresMayGrow) {
  struct Larger {
    imex_allocation_options known = IMEX_ALLOCATION_OPTIONS_INIT;
    std::uint64_t added = 0;
  } larger;
  larger.known.struct_size = sizeof larger;
  imex_allocation* out = nullptr;
  EXPECT_EQ(imex_allocate(4096, &larger.known, &out), IMEX_OK) << imex_last_error();
  imex_free(out);
  larger.added = 1;
  EXPECT_EQ(imex_allocate(4096, &larger.known, &out), IMEX_UNSUPPORTED);
  imex_allocation_options unset{};
  EXPECT_EQ(imex_allocate(4096, &unset, &out), IMEX_INVALID_ARGUMENT);
  EXPECT_THAT(imex_last_error(), HasSubstr("_INIT"));
}

TEST(CApiTest, Section18_09_APolicyOfLossIsChosenForEachImport) {
  TestDaemon daemon;
  const SessionPtr exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  const AllocationPtr memory = allocate(4096);
  const ExportPtr exported = export_memory(exporter.get(), memory.get(), 3);
  const imex_handle handle = imex_export_handle(exported.get());
  imex_import_options options = IMEX_IMPORT_OPTIONS_INIT;
  EXPECT_EQ(options.on_loss, static_cast<uint32_t>(IMEX_ON_LOSS_FAIL_FAST));
  options.on_loss = 3;
  imex_import* out = nullptr;
  EXPECT_EQ(imex_import_memory(importer.get(), &handle, &options, &out), IMEX_INVALID_ARGUMENT);
  EXPECT_THAT(imex_last_error(), HasSubstr("imex_loss_policy"));
  options.on_loss = IMEX_ON_LOSS_NOTIFY;
  ASSERT_EQ(imex_import_memory(importer.get(), &handle, &options, &out), IMEX_OK)
      << imex_last_error();
  const ImportPtr imported(out);
  daemon.move_gpu(1, 2);
  imex_event event{};
  event.struct_size = sizeof event;
  ASSERT_TRUE(await_event(importer.get(), IMEX_EVENT_IMPORT_REVOKED, event));
  EXPECT_EQ(imex_scope_error(imex_default_scope(importer.get())), IMEX_OK);
}

TEST(CApiTest, HandlesTravelAsText) {
  imex_handle handle;
  for (std::size_t i = 0; i != sizeof handle.bytes; ++i) {
    handle.bytes[i] = static_cast<unsigned char>(i * 5);
  }
  char text[129];
  imex_handle_to_hex(&handle, text);
  EXPECT_EQ(std::strlen(text), 128U);
  imex_handle back;
  ASSERT_EQ(imex_handle_from_hex(text, &back), IMEX_OK);
  EXPECT_EQ(std::memcmp(&handle, &back, sizeof handle), 0);
  EXPECT_EQ(imex_handle_from_hex("12", &back), IMEX_INVALID_ARGUMENT);
}

TEST(CApiTest, WaitsEndByCountDeadlineAbandonAndAbort) {
  TestDaemon daemon;
  const SessionPtr session = open_session(daemon, 0);
  const AllocationPtr memory = allocate(4096);
  auto* signals = static_cast<imex_signal*>(imex_allocation_data(memory.get()));
  imex_scope scope;
  ASSERT_EQ(imex_scope_create(session.get(), &scope), IMEX_OK);
  imex_wait_options options = IMEX_WAIT_OPTIONS_INIT;
  options.scope = scope;
  std::uint64_t seen = 0;

  std::jthread([&] { imex_signal_notify(&signals[0], 3); }).join();
  EXPECT_EQ(imex_signal_wait(&signals[0], 3, &options, &seen), IMEX_OK);
  EXPECT_EQ(seen, 3U);
  options.deadline_ns = imex_deadline_after_ms(1);
  EXPECT_EQ(imex_signal_wait(&signals[0], 4, &options, &seen), IMEX_DEADLINE_EXCEEDED);
  EXPECT_EQ(seen, 3U);
  imex_signal_abandon(&signals[1]);
  EXPECT_EQ(imex_signal_wait(&signals[1], 1, nullptr, nullptr), IMEX_PEER_LOST);
  EXPECT_EQ(imex_scope_error(scope), IMEX_OK);
  imex_scope_abort(scope, 6);
  options.deadline_ns = IMEX_NO_DEADLINE;
  EXPECT_EQ(imex_signal_wait(&signals[0], 4, &options, nullptr), IMEX_ABORTED);
  EXPECT_EQ(imex_last_error_rank(), 6U);
  EXPECT_EQ(imex_scope_error(scope), IMEX_ABORTED);
  EXPECT_EQ(imex_deadline_after_ms(UINT64_MAX), IMEX_NO_DEADLINE);
}

TEST(CApiTest, MemoryIsExportedImportedRevokedAndExportedAgain) {
  TestDaemon daemon;
  const SessionPtr exporter = open_session(daemon, 0), importer = open_session(daemon, 1);
  const AllocationPtr memory = allocate(5000);
  const ExportPtr exported = export_memory(exporter.get(), memory.get(), 4);
  ImportPtr imported = import_memory(importer.get(), imex_export_handle(exported.get()));
  EXPECT_EQ(imex_import_size(imported.get()), 5000U);
  EXPECT_EQ(imex_import_exporter_rank(imported.get()), 4U);
  static_cast<char*>(imex_allocation_data(memory.get()))[4999] = 'x';
  EXPECT_EQ(static_cast<char*>(imex_import_data(imported.get()))[4999], 'x');
  imex_operation* operation = nullptr;
  ASSERT_EQ(imex_operation_begin(imported.get(), &operation), IMEX_OK);
  imex_operation_end(operation);

  std::atomic<int> called{0};
  imex_on_event(
      importer.get(),
      [](const imex_event* event, void* user) {
        if (event->kind == IMEX_EVENT_IMPORT_REVOKED)
          static_cast<std::atomic<int>*>(user)->fetch_add(1);
      },
      &called);
  daemon.move_gpu(1, 2);
  imex_event event{};
  EXPECT_EQ(imex_next_event(exporter.get(), &event), IMEX_INVALID_ARGUMENT);  // no struct_size
  event.struct_size = sizeof event;
  ASSERT_TRUE(await_event(importer.get(), IMEX_EVENT_IMPORT_REVOKED, event));
  EXPECT_EQ(event.id, imex_import_id(imported.get()));
  EXPECT_EQ(event.reason, static_cast<std::uint32_t>(IMEX_REVOKED));
  EXPECT_EQ(called.load(), 1);
  EXPECT_EQ(imex_operation_begin(imported.get(), &operation), IMEX_REVOKED);
  EXPECT_EQ(imex_scope_error(imex_default_scope(importer.get())), IMEX_REVOKED);
  ASSERT_TRUE(await_event(exporter.get(), IMEX_EVENT_EXPORT_QUIESCENT, event));
  ASSERT_EQ(imex_re_export(exporter.get(), exported.get()), IMEX_OK) << imex_last_error();
  EXPECT_EQ(imex_export_generation(exported.get()), 2U);
  daemon.move_gpu(1, 1);
  imported = import_memory(importer.get(), imex_export_handle(exported.get()));
  EXPECT_EQ(static_cast<char*>(imex_import_data(imported.get()))[4999], 'x');
}

TEST(CApiTest, CommunicatorsMeetThroughTheDaemon) {
  TestDaemon daemon;
  const SessionPtr first = open_session(daemon, 0), second = open_session(daemon, 1);
  imex_rendezvous* place = nullptr;
  ASSERT_EQ(imex_rendezvous_create_on(first.get(), &place), IMEX_OK) << imex_last_error();
  const imex_unique_id id = imex_rendezvous_id(place);
  const auto run = [&](imex_session* session, std::uint32_t rank) {
    imex_communicator* comm = nullptr;
    ASSERT_EQ(imex_communicator_create_on(session, &id, rank, 2, nullptr, &comm), IMEX_OK)
        << imex_last_error();
    int word = 1;
    EXPECT_EQ(imex_all_reduce(comm, &word, &word, 1, IMEX_INT32, IMEX_SUM, 0), IMEX_OK);
    EXPECT_EQ(word, 2);
    imex_communicator_end(comm);
  };
  std::thread peer(run, second.get(), 1);
  run(first.get(), 0);
  peer.join();
  imex_rendezvous_end(place);
}

}  // namespace
}  // namespace imex
